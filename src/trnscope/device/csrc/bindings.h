// Parts of the Python module `trnscope.device._C`; each part binds its own names.
#pragma once

#include <pybind11/pybind11.h>

namespace trnscope {

void bind_device(pybind11::module_& module);
void bind_records(pybind11::module_& module);
void bind_folding(pybind11::module_& module);
void bind_kineto(pybind11::module_& module);
void bind_memory(pybind11::module_& module);
void bind_random(pybind11::module_& module);

}  // namespace trnscope
