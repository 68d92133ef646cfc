#include "kineto.h"

#include "bindings.h"
#include "folding.h"
#include "recorder.h"
#include "thread_recorder.h"

#include <c10/util/ApproximateClock.h>
#include <libkineto.h>
#include <output_base.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <map>
#include <mutex>
#include <optional>
#include <set>

namespace py = pybind11;
using libkineto::ActivityType;

namespace trnscope {

namespace {

// Python side of the windows. The objects are touched with the GIL held only.
struct Windows {
  py::object start, stop, finish;
};

std::optional<Windows>& windows() {
  static auto& instance = *new std::optional<Windows>;  // outlives the interpreter
  return instance;
}

std::atomic<uint64_t> current_session{0};

// Regions of record_function, of all threads, in order of entry.
class Annotations {
 public:
  void push(uint64_t id) {
    const std::lock_guard lock(mutex_);
    const uint32_t thread = this_thread_recorder().thread_id;
    open_[thread].push_back(closed_.size());
    closed_.push_back({id, c10::getApproximateTime(), 0, thread});
  }
  void pop() {
    const std::lock_guard lock(mutex_);
    auto& open = open_[this_thread_recorder().thread_id];
    if (open.empty()) return;
    closed_[open.back()].exit = c10::getApproximateTime();
    open.pop_back();
  }
  std::vector<Annotation> take() {
    const std::lock_guard lock(mutex_);
    open_.clear();
    return std::exchange(closed_, {});
  }

 private:
  std::mutex mutex_;
  std::map<uint32_t, std::vector<size_t>> open_;
  std::vector<Annotation> closed_;
};

// What trnscope.runtime.windows.finish returned.
struct Placement {
  py::array_t<uint8_t, py::array::c_style> bytes;
  std::vector<std::string> names;
  std::vector<std::vector<std::tuple<std::string, std::string, bool>>> metadata;  // key, value, whether to quote it
  std::string launch_name;
  bool as_kernels, as_driver;

  std::span<const PlacedExecution> executions() const {
    return {reinterpret_cast<const PlacedExecution*>(bytes.data()), bytes.size() / sizeof(PlacedExecution)};
  }
};

class Session final : public libkineto::IActivityProfilerSession {
 public:
  Session(std::string config, bool emits) : config_(std::move(config)), emits_(emits) {}

  void start() override {
    number_ = current_session.fetch_add(1) + 1;
    if (!emits_ && config_.empty()) return;  // a profile of the CPU alone
    const py::gil_scoped_acquire gil;
    if (!windows()) return;
    py::dict flags;
    bool with_stack = false;
    if (torch::profiler::impl::profilerEnabled()) {
      const auto config = torch::profiler::impl::getProfilerConfig();
      flags["record_shapes"] = config.report_input_shapes;
      flags["profile_memory"] = config.profile_memory;
      flags["with_stack"] = with_stack = config.with_stack;
      flags["with_flops"] = config.with_flops;
      flags["with_modules"] = config.with_modules;
    }
    call("starting a window", [&] {
      windows()->start(config_, flags, emits_);
      open_ = true;
    });
    if (!open_) return;
    window::switches = window::open | (with_stack ? window::stacks : 0);
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    if (!open_) return;
    const py::gil_scoped_acquire gil;
    call("ending a window", [] { windows()->stop(); });
    window::switches = 0;
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger& /*logger*/) override {}

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t start,
                    int64_t end) override {
    if (!open_) return;
    open_ = false;
    const py::gil_scoped_acquire gil;
    call("finishing a window", [&] {
      const py::object result = windows()->finish();
      if (result.is_none() || !emits_) return;
      auto [bytes, names, metadata, launch_name, as_kernels, as_driver] =
          result.cast<std::tuple<decltype(Placement::bytes), decltype(Placement::names), decltype(Placement::metadata),
                                 std::string, bool, bool>>();
      const Placement placement{bytes, names, metadata, launch_name, as_kernels, as_driver};
      emit(logger, linked, placement, start, end);
    });
    annotations_.take();
    status_ = libkineto::TraceStatus::READY;
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override {
    ThreadRecorder& thread = this_thread_recorder();
    // Ops that were in progress when an earlier session ended never popped theirs.
    if (thread.session != number_) {
      thread.session = number_;
      thread.correlations.clear();
    }
    thread.correlations.push_back(id);
  }
  void popCorrelationId() override {
    auto& correlations = this_thread_recorder().correlations;
    if (!correlations.empty()) correlations.pop_back();
  }
  void pushUserCorrelationId(uint64_t id) override { annotations_.push(id); }
  void popUserCorrelationId() override { annotations_.pop(); }

 private:
  template <typename Body>
  static void call(const char* doing, const Body& body) {
    const MuteRecording mute;
    try {
      body();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable(doing);
    } catch (const std::exception& error) {
      PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "trnscope: %s failed: %s", doing, error.what());
      PyErr_Clear();
    }
  }

  using Activity = libkineto::GenericTraceActivity;

  Activity& add(ActivityType type, const std::string& name) {
    buffer_->emplace_activity(buffer_->span, type, name);
    return *buffer_->activities.back();
  }

  void emit(libkineto::ActivityLogger& logger, const libkineto::getLinkedActivityCallback& linked,
            const Placement& placement, int64_t start, int64_t end) {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(start, end, "neuron");
    uint32_t flow = 0;
    std::set<std::pair<int16_t, int16_t>> streams;
    for (const PlacedExecution& execution : placement.executions()) {
      ++flow;
      const auto* op = execution.correlation == 0 ? nullptr : linked(static_cast<int32_t>(execution.correlation));
      add_launch(execution, placement, op, flow).log(logger);
      if (placement.as_driver) add_execution(ActivityType::PRIVATEUSE1_DRIVER, execution, placement, op, flow).log(logger);
      streams.emplace(execution.device, execution.stream);
      if (!placement.as_kernels) continue;
      const auto type = execution.category == 1 ? ActivityType::GPU_MEMCPY : ActivityType::CONCURRENT_KERNEL;
      Activity& activity = add_execution(type, execution, placement, op, flow);
      set_flow(activity, flow, /*start=*/false);
      activity.log(logger);
    }
    if (placement.as_kernels) add_annotations(logger, linked, placement);
    name_devices(logger, streams, start);
  }

  static void set_flow(Activity& activity, uint32_t id, bool start) {
    activity.flow.id = id;
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    activity.flow.start = start;
  }

  Activity& add_launch(const PlacedExecution& execution, const Placement& placement,
                       const libkineto::ITraceActivity* op, uint32_t flow) {
    Activity& activity = add(ActivityType::PRIVATEUSE1_RUNTIME, placement.launch_name);
    activity.startTime = execution.launch_start_ns;
    activity.endTime = execution.launch_end_ns;
    activity.device = libkineto::processId();
    activity.resource = static_cast<int32_t>(execution.thread);
    activity.threadId = activity.resource;
    activity.linked = op;
    // torch takes the id of an unlinked host event for that of a CPU op
    activity.id = op ? static_cast<int32_t>(flow) : 0;
    if (placement.as_kernels) set_flow(activity, flow, /*start=*/true);
    activity.addMetadata("correlation", flow);
    activity.addMetadata("exec_id", execution.exec_id);
    return activity;
  }

  Activity& add_execution(ActivityType type, const PlacedExecution& execution, const Placement& placement,
                          const libkineto::ITraceActivity* op, uint32_t flow) {
    Activity& activity = add(type, placement.names.at(execution.name));
    activity.startTime = execution.device_start_ns;
    activity.endTime = execution.device_end_ns;
    activity.device = execution.device;
    activity.resource = execution.stream;
    activity.linked = op;
    activity.id = op ? static_cast<int32_t>(flow) : 0;
    activity.addMetadata("device", execution.device);
    activity.addMetadata("stream", execution.stream);
    activity.addMetadata("correlation", flow);
    activity.addMetadata("exec_id", execution.exec_id);
    activity.addMetadata("bytes", execution.bytes);
    for (const auto& [key, value, quoted] : placement.metadata.at(execution.program)) {
      if (quoted) {
        activity.addMetadataQuoted(key, value);
      } else {
        activity.addMetadata(key, value);
      }
    }
    return activity;
  }

  // A region on the device spans the executions that were launched inside of it, per device and stream.
  void add_annotations(libkineto::ActivityLogger& logger, const libkineto::getLinkedActivityCallback& linked,
                       const Placement& placement) {
    std::map<uint32_t, std::vector<const PlacedExecution*>> by_thread;  // in order of launch
    for (const PlacedExecution& execution : placement.executions()) by_thread[execution.thread].push_back(&execution);
    for (const Annotation& annotation : annotations_.take()) {
      const auto* region = linked(static_cast<int32_t>(annotation.id));
      const auto found = by_thread.find(annotation.thread);
      if (!region || found == by_thread.end()) continue;
      const auto& launches = found->second;
      const auto before = [](const PlacedExecution* execution, int64_t at) { return execution->launch_start_ns < at; };
      const auto first = std::lower_bound(launches.begin(), launches.end(), unix_ns(annotation.enter), before);
      const auto last = annotation.exit == 0
                            ? launches.end()
                            : std::lower_bound(first, launches.end(), unix_ns(annotation.exit), before);
      std::map<std::pair<int16_t, int16_t>, std::pair<int64_t, int64_t>> spans;
      for (auto it = first; it != last; ++it) {
        const PlacedExecution& execution = **it;
        auto [span, is_new] = spans.try_emplace({execution.device, execution.stream}, execution.device_start_ns,
                                                execution.device_end_ns);
        span->second.first = std::min(span->second.first, execution.device_start_ns);
        span->second.second = std::max(span->second.second, execution.device_end_ns);
      }
      for (const auto& [where, span] : spans) {
        Activity& activity = add(ActivityType::GPU_USER_ANNOTATION, region->name());
        activity.startTime = span.first;
        activity.endTime = span.second;
        activity.device = where.first;
        activity.resource = where.second;
        activity.linked = region;
        activity.id = static_cast<int32_t>(annotation.id);
        activity.log(logger);
      }
    }
  }

  static void name_devices(libkineto::ActivityLogger& logger, const std::set<std::pair<int16_t, int16_t>>& streams,
                           int64_t time) {
    std::set<int16_t> named;
    for (const auto& [device, stream] : streams) {
      if (named.insert(device).second) {
        logger.handleDeviceInfo({device, device + libkineto::kExceedMaxPid,
                                 "logical NeuronCore " + std::to_string(device) + " (modelled)",
                                 "neuron:" + std::to_string(device)},
                                time);
      }
      logger.handleResourceInfo({stream, stream, device, "stream " + std::to_string(stream)}, time);
    }
  }

  std::string config_;
  bool emits_;
  bool open_ = false;
  uint64_t number_ = 0;
  Annotations annotations_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

class NeuronProfiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name = "__neuron_profiler__";
    return name;
  }

  const std::set<ActivityType>& availableActivities() const override {
    static const std::set<ActivityType> types = {
        ActivityType::CONCURRENT_KERNEL,   ActivityType::GPU_MEMCPY,          ActivityType::GPU_USER_ANNOTATION,
        ActivityType::PRIVATEUSE1_RUNTIME, ActivityType::PRIVATEUSE1_DRIVER,
    };
    return types;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return std::make_unique<Session>(config.getCustomConfig(), types.contains(ActivityType::CONCURRENT_KERNEL));
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t /*ts_ms*/, int64_t /*duration_ms*/,
                                                                 const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }
};

REGISTER_PRIVATEUSE1_PROFILER(NeuronProfiler);

}  // namespace

void bind_kineto(py::module_& module) {
  module.def(
      "connect_windows",
      [](py::object start, py::object stop, py::object finish) {
        windows() = Windows{std::move(start), std::move(stop), std::move(finish)};
      },
      py::arg("start"), py::arg("stop"), py::arg("finish"),
      "Gives profiling windows their Python side, trnscope.runtime.windows.");
  module.def("disconnect_windows", [] { windows().reset(); }, "Called at interpreter exit.");
  module.attr("placed_execution_bytes") = sizeof(PlacedExecution);
}

}  // namespace trnscope
