#include "device.h"

#include <c10/util/Exception.h>

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace trnscope {
namespace {

Settings chosen_settings;
thread_local c10::DeviceIndex current = 0;
std::atomic<bool> initialized{false};
std::atomic<bool> bad_fork{false};

void after_fork_in_child() { bad_fork = initialized.load(); }

}  // namespace

const Settings& settings() noexcept { return chosen_settings; }

void configure(const Settings& chosen) { chosen_settings = chosen; }

void initialize() {
  TORCH_CHECK(!bad_fork.load(std::memory_order_relaxed),
              "Cannot re-initialize Neuron in forked subprocess. To use Neuron with multiprocessing, you must use the "
              "'spawn' start method");
  if (initialized.load(std::memory_order_relaxed)) return;
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, &after_fork_in_child); });
  initialized = true;
}

bool is_initialized() noexcept { return initialized.load(std::memory_order_relaxed); }

bool is_in_bad_fork() noexcept { return bad_fork.load(std::memory_order_relaxed); }

c10::DeviceIndex current_device() noexcept { return current; }

c10::DeviceIndex checked_device(c10::DeviceIndex index) {
  if (index == -1) return current;
  TORCH_CHECK_VALUE(index >= 0 && index < chosen_settings.device_count, "Invalid device id: ", static_cast<int>(index),
                    ". Valid range is 0 to ", static_cast<int>(chosen_settings.device_count) - 1);
  return index;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  const auto previous = current;
  if (index != previous) current = checked_device(index);
  return previous;
}

void uncheck_set_device(c10::DeviceIndex index) noexcept {
  if (index >= 0) current = index;
}

}  // namespace trnscope
