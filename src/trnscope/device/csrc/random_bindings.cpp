// The devices' default generators for Python.
#include "bindings.h"
#include "generator.h"

#include <torch/csrc/Generator.h>

namespace trnscope {

void bind_random(pybind11::module_& module) {
  module.def("default_generator", [](int device) {
    return pybind11::reinterpret_steal<pybind11::object>(
        THPGenerator_Wrap(default_generator(static_cast<c10::DeviceIndex>(device))));
  });
}

}  // namespace trnscope
