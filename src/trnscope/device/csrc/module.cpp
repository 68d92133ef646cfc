// The Python module `trnscope.device._C`.
#include "bindings.h"
#include "build_torch_version.h"
#include "device.h"
#include "dispatch.h"
#include "fallback.h"
#include "streams.h"

#include <pybind11/stl.h>

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
  module.def("fallback_ops", &fallback_ops);
  module.def("clear_fallback_ops", &clear_fallback_ops);
  module.def("initialize", &initialize);
  module.def("is_initialized", &is_initialized);
  module.def("is_in_bad_fork", &is_in_bad_fork);
  module.def("elapsed_ms", [](uintptr_t start, uintptr_t end) {
    return elapsed_ms(reinterpret_cast<void*>(start), reinterpret_cast<void*>(end));
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
  trnscope::bind_memory(module);
  trnscope::bind_random(module);
}
