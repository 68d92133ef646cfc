// The set of logical NeuronCores that this process sees, and the current one of each thread.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace trnscope {

constexpr c10::DeviceType kNeuron = c10::DeviceType::PrivateUse1;

// What the process was configured with, once, by Python before the first use (trnscope.config resolves it).
struct Settings {
  c10::DeviceIndex device_count = 1;
  uint64_t hbm_bytes = 0;       // per logical NeuronCore
  bool shapes_only = false;     // compute no values
  bool launch_blocking = false; // every execution is waited for
  bool multiple_streams = false;
};

const Settings& settings() noexcept;
void configure(const Settings& chosen);

// Where kernels run: on the CPU, or on the meta device when no values are computed.
inline c10::DeviceType host_device_type() noexcept { return settings().shapes_only ? c10::kMeta : c10::kCPU; }

// Marks the device as used. Throws in a child that was forked after its parent had used it.
void initialize();
bool is_initialized() noexcept;
bool is_in_bad_fork() noexcept;

c10::DeviceIndex current_device() noexcept;
// Returns the previous index. Throws for an index that does not exist.
c10::DeviceIndex exchange_device(c10::DeviceIndex index);
void uncheck_set_device(c10::DeviceIndex index) noexcept;
// Throws for an index that does not exist; -1 stands for the current device.
c10::DeviceIndex checked_device(c10::DeviceIndex index);

}  // namespace trnscope
