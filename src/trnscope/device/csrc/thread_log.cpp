#include "thread_log.h"

#include <algorithm>
#include <new>

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

}  // namespace

LogRecord& ThreadLog::claim(std::span<const uint64_t> refs) {
  const size_t size = sizeof(LogRecord) + refs.size_bytes();
  Level level = current_ ? current_->committed.load(std::memory_order_relaxed) : Level{Chunk::capacity, 0};
  if (level.bytes + size > Chunk::capacity) {
    start_chunk();
    level = {};
  }
  std::byte* at = current_->bytes.data() + level.bytes;
  claimed_ = {static_cast<uint32_t>(level.bytes + size), level.records + 1};
  auto* ids = reinterpret_cast<uint64_t*>(at + sizeof(LogRecord));
  for (size_t i = 0; i < refs.size(); ++i) ids[i] = refs[i];
  return *new (at) LogRecord{};
}

void ThreadLog::publish() {
  current_->committed.store(claimed_, std::memory_order_release);
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
    chunk->committed.store({}, std::memory_order_relaxed);
    chunk->drained = {};
  }
  current_ = chunk.get();
  chunks_.push_back(std::move(chunk));
}

void ThreadLog::drain(DrainedLog& into) {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0, records = 0;
  for (const auto& chunk : chunks_) {
    const Level level = chunk->committed.load(std::memory_order_relaxed);
    bytes += level.bytes - chunk->drained.bytes;
    records += level.records - chunk->drained.records;
  }
  into.records.reserve(into.records.size() + records);
  into.refs.reserve(into.refs.size() + (bytes - records * sizeof(LogRecord)) / sizeof(uint64_t));
  uint64_t taken = 0;
  for (const auto& chunk : chunks_) {
    const Level end = chunk->committed.load(std::memory_order_acquire);
    const std::byte* at = chunk->bytes.data() + chunk->drained.bytes;
    while (at != chunk->bytes.data() + end.bytes) {
      LogRecord& record = into.records.emplace_back(*reinterpret_cast<const LogRecord*>(at));
      record.tensors = static_cast<uint32_t>(into.refs.size());
      const auto* refs = reinterpret_cast<const uint64_t*>(at + sizeof(LogRecord));
      into.refs.insert(into.refs.end(), refs, refs + record.n_inputs + record.n_outputs);
      at = reinterpret_cast<const std::byte*>(refs + record.n_inputs + record.n_outputs);
    }
    taken += end.records - chunk->drained.records;
    chunk->drained = end;
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
