// Append-only logs of records, one per thread, that any thread can drain.
//
// Appending takes no lock: the owner writes into its current chunk and publishes with one release store. A mutex per
// log guards only the list of chunks, which changes once per chunk. Retired chunks are used again, so that a
// long-running process that drains regularly does not grow.
#pragma once

#include "recorder.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace trnscope {

// What a drain delivers: records in order of entry with `tensors` pointing into `refs`; times still approximate.
struct DrainedLog {
  std::vector<LogRecord> records;
  std::vector<uint64_t> refs;
};

class ThreadLog {
 public:
  // Owner only: a zeroed record, followed by `refs`, which nobody sees before `publish`.
  LogRecord& claim(std::span<const uint64_t> refs);
  // Owner only: hands the claimed record over. Its n_inputs + n_outputs equals the number of refs.
  void publish();

  // Records appended and not yet drained. Exact on the owning thread.
  uint64_t pending() const { return appended_ - drained_.load(std::memory_order_relaxed); }

  // One drainer at a time.
  void drain(DrainedLog& into);

 private:
  // A filling level: bytes and, so that a drain knows what to reserve, records.
  struct Level {
    uint32_t bytes = 0, records = 0;
  };
  struct Chunk {
    static constexpr size_t capacity = 64 * 1024;
    std::atomic<Level> committed{};  // written by the owner
    Level drained;                   // touched by the drainer only
    alignas(LogRecord) std::array<std::byte, capacity> bytes;
  };
  static constexpr size_t spare_limit = 16;

  void start_chunk();

  Chunk* current_ = nullptr;  // the last of chunks_
  Level claimed_;             // of the current chunk, once the claimed record is published
  uint64_t appended_ = 0;
  std::atomic<uint64_t> drained_{0};
  std::mutex mutex_;  // guards the two lists
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<std::unique_ptr<Chunk>> spare_;
};

// Makes a log for the calling thread; it is drained like the others, and dropped once its thread is gone.
std::shared_ptr<ThreadLog> register_thread_log();

// Takes all published records of all threads. Needs no GIL and never waits for one.
DrainedLog drain_thread_logs();

}  // namespace trnscope
