// Ops from outside of aten that have no kernel for the device.
#pragma once

#include <string>
#include <vector>

namespace trnscope {

// Names of the ops that ran through their CPU kernel because the device has none, each once.
std::vector<std::string> fallback_ops();
void clear_fallback_ops();

}  // namespace trnscope
