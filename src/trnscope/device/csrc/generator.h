// Random numbers: a device's own generator that gives the stream of PyTorch's CPU generator for the same seed.
#pragma once

#include "device.h"

#include <ATen/core/Generator.h>

namespace trnscope {

const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator new_generator(c10::DeviceIndex device);
// The CPU generator that a neuron generator draws from.
const at::Generator& host_generator(const at::Generator& generator);

}  // namespace trnscope
