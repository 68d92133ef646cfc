// The Python module `trnscope.device._C`.
#include "bindings.h"
#include "build_torch_version.h"
#include "device.h"
#include "dispatch.h"
#include "generator.h"

namespace trnscope {
namespace {

// Python looks for this text in the file before it loads it (device/autoload.py).
constexpr char kVersionMark[] = "trnscope-built-against-torch=" TRNSCOPE_TORCH_VERSION;

}  // namespace

void bind_device(pybind11::module_& module) {
  module.attr("version_mark") = kVersionMark;
  module.def(
      "configure",
      [](int device_count, uint64_t hbm_bytes, bool shapes_only, bool launch_blocking, bool multiple_streams) {
        configure({static_cast<c10::DeviceIndex>(device_count), hbm_bytes, shapes_only, launch_blocking,
                   multiple_streams});
      },
      pybind11::kw_only(), pybind11::arg("device_count"), pybind11::arg("hbm_bytes"), pybind11::arg("shapes_only"),
      pybind11::arg("launch_blocking"), pybind11::arg("multiple_streams"));
  module.def("register_host_kernels", &register_host_kernels);
  module.def("manual_seed", [](int device, uint64_t seed) {
    auto generator = default_generator(static_cast<c10::DeviceIndex>(device));
    std::lock_guard guard(generator.mutex());
    generator.set_current_seed(seed);
  });
  module.def("device_count", [] { return static_cast<int>(settings().device_count); });
  module.def("current_device", [] { return static_cast<int>(current_device()); });
  module.def("set_device", [](int index) { exchange_device(checked_device(static_cast<c10::DeviceIndex>(index))); });
}

}  // namespace trnscope

PYBIND11_MODULE(_C, module) {
  module.doc() = "The neuron device of trnscope: memory, dispatch, records.";
  trnscope::bind_device(module);
  trnscope::bind_records(module);
}
