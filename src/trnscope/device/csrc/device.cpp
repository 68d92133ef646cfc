#include "device.h"

#include <c10/util/Exception.h>

namespace trnscope {
namespace {

Settings chosen_settings;
thread_local c10::DeviceIndex current = 0;

}  // namespace

const Settings& settings() noexcept { return chosen_settings; }

void configure(const Settings& chosen) { chosen_settings = chosen; }

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
