// The device guard: how the rest of PyTorch switches devices and streams, and drives events.
#include "device.h"
#include "recorder.h"
#include "streams.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>

namespace trnscope {
namespace {

std::atomic<int64_t> next_event{1};

// Identity of one recording of an event; an event that is recorded again gets a new one.
struct EventState {
  std::atomic<int64_t> recording{0};
};

int64_t recording_of(void* event) {
  return event == nullptr ? 0 : static_cast<EventState*>(event)->recording.load();
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kNeuron; }
  c10::Device exchangeDevice(c10::Device device) const override { return {kNeuron, exchange_device(device.index())}; }
  c10::Device getDevice() const override { return {kNeuron, current_device()}; }
  void setDevice(c10::Device device) const override { exchange_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { uncheck_set_device(device.index()); }
  c10::DeviceIndex deviceCount() const noexcept override { return settings().device_count; }

  c10::Stream getStream(c10::Device device) const override { return current_stream(checked_device(device.index())); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return default_stream(checked_device(device.index()));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return new_stream(checked_device(device.index()), high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return new_stream(checked_device(device.index()), priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new EventState;
    const auto id = next_event.fetch_add(1, std::memory_order_relaxed);
    static_cast<EventState*>(*event)->recording = id;
    record_host(Kind::event_record, stream.device_index(), queue_of(stream), id);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (const auto id = recording_of(event)) record_host(Kind::event_wait, stream.device_index(), queue_of(stream), id);
  }
  // Values exist as soon as an op returns, so nothing is ever outstanding for the host.
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void* event) const override {
    if (const auto id = recording_of(event)) record_host(Kind::event_sync, current_device(), 0, id);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<EventState*>(event);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override { return elapsed_ms(start, end); }

  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream& stream) const override {
    record_host(Kind::stream_sync, stream.device_index(), queue_of(stream), 0);
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    initialize();
    record_host(Kind::device_sync, checked_device(device), 0, 0);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace

double elapsed_ms(void* start, void* end) {
  TORCH_CHECK(recording_of(start) != 0 && recording_of(end) != 0, "Event has not been recorded");
  return static_cast<double>(event_time_ns(recording_of(end)) - event_time_ns(recording_of(start))) * 1e-6;
}

}  // namespace trnscope
