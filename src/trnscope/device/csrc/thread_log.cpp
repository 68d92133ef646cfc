#include "thread_log.h"

#include <algorithm>
#include <cstring>

namespace trnscope {

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<ThreadLog>> logs;
};

Registry& registry() {
  // Never destroyed: threads may outlive static destruction.
  static auto& instance = *new Registry;
  return instance;
}

size_t entry_bytes(const LogRecord& record) {
  return sizeof(LogRecord) + sizeof(uint64_t) * (size_t{record.n_inputs} + record.n_outputs);
}

}  // namespace

void ThreadLog::append(const LogRecord& record, std::span<const uint64_t> refs) {
  const size_t size = entry_bytes(record);
  size_t offset = current_ ? current_->committed.load(std::memory_order_relaxed) : Chunk::capacity;
  if (offset + size > Chunk::capacity) {
    start_chunk();
    offset = 0;
  }
  std::byte* at = current_->bytes.data() + offset;
  std::memcpy(at, &record, sizeof(LogRecord));
  std::memcpy(at + sizeof(LogRecord), refs.data(), size - sizeof(LogRecord));
  current_->committed.store(offset + size, std::memory_order_release);
  ++appended_;
}

void ThreadLog::start_chunk() {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Chunk> chunk;
  if (spare_.empty()) {
    chunk = std::make_unique_for_overwrite<Chunk>();
  } else {
    chunk = std::move(spare_.back());
    spare_.pop_back();
    chunk->committed.store(0, std::memory_order_relaxed);
    chunk->drained = 0;
  }
  current_ = chunk.get();
  chunks_.push_back(std::move(chunk));
}

void ThreadLog::drain(DrainedLog& into) {
  const std::lock_guard lock(mutex_);
  uint64_t taken = 0;
  size_t bytes = 0;
  for (const auto& chunk : chunks_) bytes += chunk->committed.load(std::memory_order_relaxed) - chunk->drained;
  into.records.reserve(into.records.size() + bytes / sizeof(LogRecord) + 1);
  into.refs.reserve(into.refs.size() + bytes / sizeof(LogRecord) * 4);
  for (auto& chunk : chunks_) {
    const size_t end = chunk->committed.load(std::memory_order_acquire);
    while (chunk->drained < end) {
      const std::byte* at = chunk->bytes.data() + chunk->drained;
      LogRecord& record = into.records.emplace_back();
      std::memcpy(&record, at, sizeof(LogRecord));
      const size_t count = size_t{record.n_inputs} + record.n_outputs;
      record.tensors = static_cast<uint32_t>(into.refs.size());
      into.refs.resize(into.refs.size() + count);
      std::memcpy(into.refs.data() + record.tensors, at + sizeof(LogRecord), count * sizeof(uint64_t));
      chunk->drained += entry_bytes(record);
      ++taken;
    }
  }
  // All but the last are full: the owner has moved on.
  for (size_t i = 0; i + 1 < chunks_.size(); ++i) {
    if (spare_.size() < spare_limit) spare_.push_back(std::move(chunks_[i]));
  }
  if (chunks_.size() > 1) chunks_.erase(chunks_.begin(), chunks_.end() - 1);
  drained_.fetch_add(taken, std::memory_order_relaxed);
}

std::shared_ptr<ThreadLog> register_thread_log() {
  auto log = std::make_shared<ThreadLog>();
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.logs.push_back(log);
  return log;
}

DrainedLog drain_thread_logs() {
  DrainedLog drained;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  size_t threads_with_records = 0;
  std::erase_if(all.logs, [&](const auto& log) {
    // Asked before draining, so that nothing can be appended in between: only its thread shares the log.
    const bool ended = log.use_count() == 1;
    const size_t before = drained.records.size();
    log->drain(drained);
    threads_with_records += drained.records.size() != before;
    return ended;
  });
  if (threads_with_records > 1) {
    std::stable_sort(drained.records.begin(), drained.records.end(),
                     [](const LogRecord& a, const LogRecord& b) { return a.enter_ns < b.enter_ns; });
  }
  return drained;
}

}  // namespace trnscope
