// Python's view of the recorder: `trnscope.runtime` is its only user, `trnscope.compiler` launches graphs.
#include "bindings.h"
#include "recorder.h"
#include "signature.h"
#include "stacks.h"
#include "thread_recorder.h"

#include <c10/core/ScalarType.h>
#include <pybind11/complex.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <cstddef>
#include <optional>

namespace py = pybind11;

namespace trnscope {

namespace {

py::tuple tensor_tuple(const TensorDescription& tensor) {
  return py::make_tuple(py::str(std::string(c10::getDtypeNames(tensor.dtype).first)), py::tuple(py::cast(tensor.sizes)),
                        py::tuple(py::cast(tensor.strides)), tensor.offset);
}

py::tuple tensor_tuples(const std::vector<TensorDescription>& tensors) {
  py::tuple tuple(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) tuple[i] = tensor_tuple(tensors[i]);
  return tuple;
}

py::object scalar_object(const ScalarValue& scalar) {
  return std::visit(
      [](const auto& value) -> py::object {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return py::none();
        } else if constexpr (std::is_same_v<T, std::vector<ScalarValue>>) {
          py::tuple tuple(value.size());
          for (size_t i = 0; i < value.size(); ++i) tuple[i] = scalar_object(value[i]);
          return tuple;
        } else {
          return py::cast(value);
        }
      },
      scalar.value);
}

py::object signature_tuple(uint32_t id) {
  const auto description = describe_signature(id);
  if (!description) return py::none();
  const ArgumentsDescription& arguments = *description->arguments;
  py::tuple scalars(arguments.scalars.size());
  for (size_t i = 0; i < arguments.scalars.size(); ++i) {
    scalars[i] = py::make_tuple(arguments.scalars[i].first, scalar_object(arguments.scalars[i].second));
  }
  return py::make_tuple(description->name, tensor_tuples(arguments.inputs), tensor_tuples(description->outputs),
                        std::move(scalars), py::tuple(py::cast(arguments.mutated)),
                        py::tuple(py::cast(description->aliased)));
}

py::dict record_layout() {
  py::dict layout;
  layout["itemsize"] = sizeof(LogRecord);
#define TRNSCOPE_FIELD(name) layout[#name] = py::make_tuple(offsetof(LogRecord, name), sizeof(LogRecord::name))
  TRNSCOPE_FIELD(enter_ns);
  TRNSCOPE_FIELD(exit_ns);
  TRNSCOPE_FIELD(op_id);
  TRNSCOPE_FIELD(correlation);
  TRNSCOPE_FIELD(seq_nr);
  TRNSCOPE_FIELD(aux);
  TRNSCOPE_FIELD(signature);
  TRNSCOPE_FIELD(tensors);
  TRNSCOPE_FIELD(stack);
  TRNSCOPE_FIELD(module);
  TRNSCOPE_FIELD(thread);
  TRNSCOPE_FIELD(graph_task);
  TRNSCOPE_FIELD(device);
  TRNSCOPE_FIELD(stream);
  TRNSCOPE_FIELD(kind);
  TRNSCOPE_FIELD(phase);
  TRNSCOPE_FIELD(origin);
  TRNSCOPE_FIELD(flags);
  TRNSCOPE_FIELD(n_inputs);
  TRNSCOPE_FIELD(n_outputs);
#undef TRNSCOPE_FIELD
  return layout;
}

// MuteRecording as a context manager.
class Mute {
 public:
  void enter() { mute_.emplace(); }
  void exit(const py::args& /*exception*/) { mute_.reset(); }

 private:
  std::optional<MuteRecording> mute_;
};

// GraphRecording as a context manager: `with GraphLaunch(signature, inputs) as launch: ...; launch.commit(...)`.
class GraphLaunch {
 public:
  GraphLaunch(uint32_t signature, std::vector<at::Tensor> inputs) : signature_(signature), inputs_(std::move(inputs)) {}
  GraphLaunch& enter() {
    recording_ = std::make_unique<GraphRecording>(signature_, inputs_);
    return *this;
  }
  void commit(int device, int stream, const std::vector<at::Tensor>& outputs) {
    if (!recording_) throw py::value_error("GraphLaunch.commit: outside of its with block");
    recording_->commit(device, stream, outputs);
  }
  void exit(const py::args& /*exception*/) { recording_.reset(); }

 private:
  uint32_t signature_;
  std::vector<at::Tensor> inputs_;
  std::unique_ptr<GraphRecording> recording_;
};

}  // namespace

void bind_records(py::module_& module) {
  bind_folding(module);
  bind_kineto(module);
  module.def("record_layout", &record_layout, "Offset and size of each field of the C++ record.");
  module.def("describe_signature", &signature_tuple, py::arg("signature"),
             "(name, inputs, outputs, scalars, mutated, aliased) of an op signature, or None when it is unknown.");
  module.def("signature_count", &signature_count, "Distinct op signatures held.");
  module.def("reset_signatures", &reset_signatures, "Forgets op signatures; those of the ending generation stay once more.");
  module.def(
      "describe_stack",
      [](uint32_t id) {
        py::list frames;
        for (const StackFrame& frame : describe_stack(id)) {
          frames.append(py::make_tuple(frame.file, frame.line, frame.function));
        }
        return frames;
      },
      py::arg("stack"), "[(file, line, function)] of a stack id, innermost first.");
  module.def("reset_stacks", &reset_stacks, "Forgets all stacks.");
  module.def(
      "set_current_module", [](uint32_t id) { return std::exchange(this_thread_recorder().module, id); },
      py::arg("module"), "Module id that this thread's records carry from now on; returns the previous one.");
  module.def(
      "set_optimizer_phase", [](bool on) { return std::exchange(this_thread_recorder().optimizer, on); }, py::arg("on"),
      "Whether this thread's records belong to the optimizer; returns the previous value.");
  module.def(
      "record_mark", [](int64_t number) { record_host(Kind::mark, 0, 0, number); }, py::arg("number"),
      "Adds a mark to the log.");
  py::class_<Mute>(module, "MuteRecording", "Ops inside of the block leave no records.")
      .def(py::init<>())
      .def("__enter__", &Mute::enter)
      .def("__exit__", &Mute::exit);
  py::class_<GraphLaunch>(module, "GraphLaunch", "One launch of a compiled graph: one record, whatever runs inside.")
      .def(py::init<uint32_t, std::vector<at::Tensor>>(), py::arg("signature"), py::arg("inputs"))
      .def("__enter__", &GraphLaunch::enter, py::return_value_policy::reference_internal)
      .def("commit", &GraphLaunch::commit, py::arg("device"), py::arg("stream"), py::arg("outputs"))
      .def("__exit__", &GraphLaunch::exit);
}

}  // namespace trnscope
