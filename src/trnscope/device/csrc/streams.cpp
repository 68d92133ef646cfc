#include "streams.h"

#include <atomic>
#include <vector>

namespace trnscope {
namespace {

constexpr int kPoolStreams = 3;

// Ids are unique although only kPoolStreams queues stand behind them: counter << 5 | priority << 3 | pool place.
constexpr int kCounterShift = 5;
constexpr int kPriorityShift = 3;
constexpr c10::StreamId kPlaceMask = (1 << kPriorityShift) - 1;

std::atomic<int64_t> made{0};
thread_local std::vector<c10::StreamId> current_ids;

}  // namespace

c10::Stream default_stream(c10::DeviceIndex device) noexcept {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNeuron, device), 0);
}

c10::Stream current_stream(c10::DeviceIndex device) noexcept {
  const auto place = static_cast<size_t>(device);
  const c10::StreamId id = place < current_ids.size() ? current_ids[place] : 0;
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNeuron, device), id);
}

c10::Stream exchange_stream(c10::Stream stream) {
  const auto device = checked_device(stream.device_index());
  const auto previous = current_stream(device);
  if (previous.id() != stream.id()) {
    if (current_ids.size() <= static_cast<size_t>(device)) current_ids.resize(device + 1, 0);
    current_ids[device] = stream.id();
  }
  return previous;
}

c10::Stream new_stream(c10::DeviceIndex device, int priority) {
  if (!settings().multiple_streams) return default_stream(device);
  const auto count = made.fetch_add(1, std::memory_order_relaxed);
  const c10::StreamId place = 1 + count % kPoolStreams;
  const c10::StreamId urgency = priority < 0 ? 1 : 0;
  const c10::StreamId id = (count + 1) << kCounterShift | urgency << kPriorityShift | place;
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNeuron, device), id);
}

int16_t queue_of(const c10::Stream& stream) noexcept { return static_cast<int16_t>(stream.id() & kPlaceMask); }

}  // namespace trnscope
