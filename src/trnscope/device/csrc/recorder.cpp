#include "recorder.h"

#include "allocator.h"
#include "folding.h"
#include "stacks.h"
#include "thread_recorder.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/SequenceNumber.h>
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/node.h>

#include <unistd.h>

#include <memory>

namespace trnscope {

namespace {

constexpr uint64_t kFoldEvery = 4096;  // records of one thread outside of windows

uint64_t enter(ThreadRecorder& thread) {
  const uint64_t now = c10::getApproximateTime();
  // Folding after the entry time is taken makes it part of the dispatch, which the virtual clock collapses.
  if (thread.log->pending() >= kFoldEvery && window::get() == 0) flush();
  return now;
}

// Claims a record in the log with everything that the thread knows filled in; `publish` ends it.
LogRecord& begin_record(ThreadRecorder& thread, Kind kind, uint64_t enter, int device, int stream, int64_t aux,
                        std::span<const uint64_t> refs) {
  const uint32_t stack = (window::get() & window::stacks) != 0 ? intern_python_stack() : 0;  // may wait for the GIL
  LogRecord& record = thread.log->claim(refs);
  record.enter_ns = static_cast<int64_t>(enter);
  record.stack = stack;
  record.correlation = thread.correlations.empty() ? 0 : thread.correlations.back();
  record.seq_nr = -1;
  record.aux = aux;
  record.module = thread.module;
  record.thread = thread.thread_id;
  record.graph_task = torch::autograd::get_current_graph_task_id();
  record.device = static_cast<int16_t>(device);
  record.stream = static_cast<int16_t>(stream);
  record.kind = static_cast<uint8_t>(kind);
  record.phase = static_cast<uint8_t>(record.graph_task >= 0  ? Phase::backward
                                      : thread.optimizer ? Phase::optimizer
                                                         : Phase::forward);
  return record;
}

void publish(ThreadRecorder& thread, LogRecord& record) {
  record.exit_ns = static_cast<int64_t>(c10::getApproximateTime());
  thread.log->publish();
}

// The number that ties an op to its autograd node: the node that runs in backward, the node that was just made in
// forward (its kernel runs after it took its number); none when the op takes no part in autograd.
int64_t sequence_number(const LogRecord& record, bool requires_grad) {
  if (record.graph_task >= 0) {
    const auto node = torch::autograd::get_current_node();
    return node ? static_cast<int64_t>(node->sequence_nr()) : -1;
  }
  if (!requires_grad || !at::GradMode::is_enabled()) return -1;
  return static_cast<int64_t>(at::sequence_number::peek()) - 1;
}

Origin origin_of(Kind kind, Origin given) {
  switch (kind) {
    case Kind::graph: return Origin::compiled;
    case Kind::copy_h2d:
    case Kind::copy_d2h:
    case Kind::copy_d2d: return Origin::copy;
    case Kind::collective: return Origin::collective;
    default: return given;
  }
}

std::vector<uint64_t> storages_of(c10::ArrayRef<at::Tensor> tensors) {
  std::vector<uint64_t> ids;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.device().type() != c10::kPrivateUse1 || ids.size() == TensorRefs::limit) continue;
    ids.push_back(storage_id(*tensor.storage().unsafeGetStorageImpl()));
  }
  return ids;
}

}  // namespace

ThreadRecorder::ThreadRecorder() : thread_id(static_cast<uint32_t>(gettid())) {}

thread_local constinit ThreadRecorder* current_recorder = nullptr;

ThreadRecorder& make_thread_recorder() {
  struct Holder {
    std::unique_ptr<ThreadRecorder> recorder = std::make_unique<ThreadRecorder>();
    ~Holder() { current_recorder = nullptr; }
  };
  thread_local Holder holder;
  current_recorder = holder.recorder.get();
  return *current_recorder;
}

OpRecording::OpRecording(const c10::OperatorHandle& op)
    : thread_(this_thread_recorder()), schema_(op.schema()), live_(thread_.depth++ == 0 && thread_.muted == 0) {
  if (!live_) return;
  enter_ = enter(thread_);
  thread_.refs.clear();
}

OpRecording::~OpRecording() { --thread_.depth; }

void OpRecording::inputs(c10::ArrayRef<c10::IValue> arguments) {
  if (!live_) return;
  arguments_hash_ = hash_arguments(thread_.signatures, schema_, arguments, thread_.refs, requires_grad_);
}

void OpRecording::outputs(c10::ArrayRef<c10::IValue> results) {
  if (!live_) return;
  const InternedSignature interned = intern_signature(thread_.signatures, schema_, arguments_hash_, results, thread_.refs);
  signature_ = interned.id;
  mutates_ = interned.mutates;
}

void OpRecording::commit(Kind kind, int device, int stream, int64_t aux, uint8_t flags, Origin origin) {
  if (!live_ || (kind == Kind::view && (window::get() & window::views) == 0)) return;
  LogRecord& record = begin_record(thread_, kind, enter_, device, stream, aux, thread_.refs.ids);
  record.seq_nr = sequence_number(record, requires_grad_);
  record.signature = signature_;
  record.flags = flags | (mutates_ ? flag::mutates : 0);
  record.origin = static_cast<uint8_t>(origin_of(kind, origin));
  record.n_inputs = thread_.refs.inputs;
  record.n_outputs = thread_.refs.outputs;
  publish(thread_, record);
}

MuteRecording::MuteRecording() : thread_(this_thread_recorder()) { ++thread_.muted; }

MuteRecording::~MuteRecording() { --thread_.muted; }

GraphRecording::GraphRecording(uint32_t signature, c10::ArrayRef<at::Tensor> inputs)
    : thread_(this_thread_recorder()),
      live_(thread_.depth == 0 && thread_.muted == 1),  // muted by its own member
      signature_(signature),
      enter_(enter(thread_)),
      inputs_(storages_of(inputs)) {}

void GraphRecording::commit(int device, int stream, c10::ArrayRef<at::Tensor> outputs) {
  if (!live_) return;
  live_ = false;
  std::vector<uint64_t> refs = std::move(inputs_);
  const auto n_inputs = static_cast<uint8_t>(refs.size());
  const auto results = storages_of(outputs);
  refs.insert(refs.end(), results.begin(), results.end());
  LogRecord& record = begin_record(thread_, Kind::graph, enter_, device, stream, 0, refs);
  record.n_inputs = n_inputs;
  record.n_outputs = static_cast<uint8_t>(results.size());
  record.seq_nr = sequence_number(record, /*requires_grad=*/false);
  record.signature = signature_;
  record.origin = static_cast<uint8_t>(Origin::compiled);
  publish(thread_, record);
}

void record_host(Kind kind, int device, int stream, int64_t aux) {
  ThreadRecorder& thread = this_thread_recorder();
  if (thread.depth != 0 || thread.muted != 0) return;
  publish(thread, begin_record(thread, kind, enter(thread), device, stream, aux, {}));
}

}  // namespace trnscope
