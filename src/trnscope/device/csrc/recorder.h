// The record log: one LogRecord per dispatched op, copy, event and synchronisation, in order of entry.
//
// Contract with the rest of the extension (the dispatcher, copies, streams and events call it):
//
//   OpRecording recording(op);            // before values are computed: takes the entry time
//   recording.inputs(stack arguments);    // metadata before the op can change it
//   ... compute ...
//   recording.outputs(returned IValues);
//   recording.commit(Kind::op, device, stream, aux);
//
// A recording that is destroyed without commit leaves no trace (the op failed). Nested recordings on a thread are
// mute: only the outermost one counts, so that a composite that re-enters the dispatcher is one record.
//
// Mirrors trnscope.schema.records; the sizes and offsets are compared in a test.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

namespace trnscope {

enum class Kind : uint8_t {
  op = 0, graph = 1, copy_h2d = 2, copy_d2h = 3, copy_d2d = 4, collective = 5,
  event_record = 6, event_wait = 7, event_sync = 8, stream_sync = 9, device_sync = 10, view = 11, mark = 12,
};

enum class Phase : uint8_t { forward = 0, backward = 1, optimizer = 2 };
enum class Origin : uint8_t { eager = 0, compiled = 1, copy = 2, collective = 3, fallback = 4 };

namespace flag {
constexpr uint8_t non_blocking = 1, blocking = 2, mutates = 4, shapes_only = 8;
}

struct LogRecord {
  int64_t enter_ns, exit_ns;   // drained as Unix ns; raw approximate clock while in the log
  int64_t op_id;
  uint64_t correlation;
  int64_t seq_nr, aux;
  uint32_t signature, tensors, stack, module, thread;
  int32_t graph_task;
  int16_t device, stream;
  uint8_t kind, phase, origin, flags, n_inputs, n_outputs;
  uint8_t pad[6];
};
static_assert(sizeof(LogRecord) == 88);

struct ThreadRecorder;

class OpRecording {
 public:
  explicit OpRecording(const c10::OperatorHandle& op);
  ~OpRecording();
  OpRecording(const OpRecording&) = delete;
  OpRecording& operator=(const OpRecording&) = delete;

  // Whether this one is the outermost and recording is on: callers may skip their own bookkeeping otherwise.
  bool live() const { return live_; }
  void inputs(c10::ArrayRef<c10::IValue> arguments);
  void outputs(c10::ArrayRef<c10::IValue> results);
  // The origin of copies and graphs follows from their kind.
  void commit(Kind kind, int device, int stream, int64_t aux = 0, uint8_t flags = 0, Origin origin = Origin::eager);

 private:
  ThreadRecorder& thread_;
  const c10::FunctionSchema& schema_;
  bool live_;
  bool requires_grad_ = false;
  bool mutates_ = false;
  uint32_t signature_ = 0;
  uint64_t arguments_hash_ = 0;
  uint64_t enter_ = 0;
};

// Mutes recording on this thread: what runs inside belongs to something that is recorded as a whole.
class MuteRecording {
 public:
  MuteRecording();
  ~MuteRecording();
  MuteRecording(const MuteRecording&) = delete;
  MuteRecording& operator=(const MuteRecording&) = delete;

 private:
  ThreadRecorder& thread_;
};

// One launch of a compiled graph: everything between construction and commit is one execution.
class GraphRecording {
 public:
  // `signature` comes from trnscope.runtime.signatures.register_graph.
  GraphRecording(uint32_t signature, c10::ArrayRef<at::Tensor> inputs);
  void commit(int device, int stream, c10::ArrayRef<at::Tensor> outputs);

 private:
  MuteRecording mute_;
  ThreadRecorder& thread_;
  bool live_;
  uint32_t signature_;
  uint64_t enter_;
  std::vector<uint64_t> inputs_;
};

// A record without an op signature: event_*, *_sync, mark.
void record_host(Kind kind, int device, int stream, int64_t aux);

// The virtual clock, for Event.elapsed_time and synchronize: folds the log and answers in virtual device time.
int64_t event_time_ns(int64_t event_id);

}  // namespace trnscope
