#include "folding.h"

#include "bindings.h"
#include "host_clock.h"
#include "recorder.h"
#include "thread_recorder.h"

#include <pybind11/numpy.h>

#include <atomic>
#include <mutex>

namespace py = pybind11;

namespace trnscope {

namespace {

// Python side of the runtime. The objects are touched with the GIL held only.
struct Runtime {
  std::atomic<bool> connected{false};
  py::object flush, event_time;
};

Runtime& runtime() {
  static auto& instance = *new Runtime;  // outlives the interpreter
  return instance;
}

struct Drain {
  std::mutex mutex;
  HostClock clock;
  int64_t next_op_id = 0;
};

Drain& drain_state() {
  static auto& instance = *new Drain;
  return instance;
}

thread_local bool flushing = false;

template <typename T>
py::array_t<uint8_t> as_bytes(std::vector<T>&& values) {
  values.shrink_to_fit();  // kept for as long as a window is open
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  const auto* data = reinterpret_cast<const uint8_t*>(owned->data());
  const auto size = static_cast<py::ssize_t>(owned->size() * sizeof(T));
  py::capsule keeper(owned.release(), [](void* vector) { delete static_cast<std::vector<T>*>(vector); });
  return py::array_t<uint8_t>(size, data, keeper);
}

// All records since the last call, with Unix times and op ids.
py::tuple drain() {
  DrainedLog drained;
  {
    py::gil_scoped_release no_gil;
    Drain& state = drain_state();
    const std::lock_guard lock(state.mutex);
    drained = drain_thread_logs();
    state.clock.advance();
    for (LogRecord& record : drained.records) {
      record.enter_ns = state.clock.unix_ns(static_cast<uint64_t>(record.enter_ns));
      record.exit_ns = state.clock.unix_ns(static_cast<uint64_t>(record.exit_ns));
      record.op_id = state.next_op_id++;
    }
  }
  return py::make_tuple(as_bytes(std::move(drained.records)), as_bytes(std::move(drained.refs)));
}

}  // namespace

void flush() {
  if (flushing) return;
  if (!runtime().connected.load(std::memory_order_acquire)) {
    const std::lock_guard lock(drain_state().mutex);
    drain_thread_logs();  // nobody wants them
    return;
  }
  const py::gil_scoped_acquire gil;
  if (!runtime().connected.load(std::memory_order_acquire)) return;
  flushing = true;
  const MuteRecording mute;  // whatever the runtime does is not the user's work
  try {
    runtime().flush();
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("trnscope: folding the record log");
  }
  flushing = false;
}

int64_t event_time_ns(int64_t event_id) {
  flush();
  if (!runtime().connected.load(std::memory_order_acquire)) return 0;
  const py::gil_scoped_acquire gil;
  const MuteRecording mute;
  return runtime().event_time(event_id).cast<int64_t>();
}

int64_t unix_ns(uint64_t approximate) {
  Drain& state = drain_state();
  const std::lock_guard lock(state.mutex);
  return state.clock.unix_ns(approximate);
}

void bind_folding(py::module_& module) {
  drain_state();
  module.def(
      "connect_runtime",
      [](py::object flush, py::object event_time) {
        runtime().flush = std::move(flush);
        runtime().event_time = std::move(event_time);
        runtime().connected.store(true, std::memory_order_release);
      },
      py::arg("flush"), py::arg("event_time_ns"),
      "Gives the recorder its Python side: `flush()` takes the log with `drain_log`, `event_time_ns(id)` answers.");
  module.def(
      "disconnect_runtime",
      [] {
        runtime().connected.store(false, std::memory_order_release);
        runtime().flush = py::none();
        runtime().event_time = py::none();
      },
      "Called at interpreter exit: records are dropped from here on.");
  module.def("drain_log", &drain, "(records, refs) as byte arrays: all records since the last call, in order of entry.");
  module.def("flush_log", &flush, "Folds the log now.");
}

}  // namespace trnscope
