// What the recorder knows about each thread, and the switches of the open profiling window.
#pragma once

#include "signature.h"
#include "thread_log.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace trnscope {

// A record_function region seen on a thread. Times are approximate ones; end is 0 while it is open.
struct Annotation {
  uint64_t id;
  uint64_t enter, exit;
  uint32_t thread;
};

struct ThreadRecorder {
  std::shared_ptr<ThreadLog> log = register_thread_log();
  TensorRefs refs;  // of the recording in progress
  SignatureCache signatures;
  uint32_t thread_id;
  int depth = 0;  // recordings in progress
  int muted = 0;
  uint32_t module = 0;
  bool optimizer = false;
  // Kineto's ids of the CPU ops in progress; cleared when another session begins.
  std::vector<uint64_t> correlations;
  uint64_t session = 0;

  ThreadRecorder();
};

// The fast model of thread-local storage: one pointer fits into what the loader keeps for late libraries.
extern thread_local constinit ThreadRecorder* current_recorder __attribute__((tls_model("initial-exec")));
ThreadRecorder& make_thread_recorder();

inline ThreadRecorder& this_thread_recorder() { return current_recorder ? *current_recorder : make_thread_recorder(); }

// Bits of what the open window asks for; none when no window is open.
namespace window {
constexpr uint32_t open = 1, stacks = 2, views = 4;
inline std::atomic<uint32_t> switches{0};
inline uint32_t get() { return switches.load(std::memory_order_relaxed); }
}  // namespace window

}  // namespace trnscope
