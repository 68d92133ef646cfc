// Streams of a device: ids, the current one of each thread, and events.
#pragma once

#include "device.h"

#include <c10/core/Stream.h>

namespace trnscope {

c10::Stream current_stream(c10::DeviceIndex device) noexcept;
c10::Stream exchange_stream(c10::Stream stream);
c10::Stream default_stream(c10::DeviceIndex device) noexcept;
// The default stream, unless several streams are switched on (NEURON_RT_ENABLE_HOST_CC=1).
c10::Stream new_stream(c10::DeviceIndex device, int priority);
// The queue of the modelled device behind a stream: 0 is the default one.
int16_t queue_of(const c10::Stream& stream) noexcept;
inline int16_t current_queue(c10::DeviceIndex device) noexcept { return queue_of(current_stream(device)); }

// Modelled device time between two recorded events, given as PyTorch's event objects hold them.
double elapsed_ms(void* start, void* end);

}  // namespace trnscope
