// The Kineto plugin: makes torch.profiler see the modelled executions.
//
// A session follows the CPU ops of its window (so that each record knows the op it belongs to) and asks
// trnscope.runtime.windows for the placed executions when Kineto processes its trace.
#pragma once

#include <cstdint>

namespace trnscope {

// One execution as the runtime placed it; mirrors trnscope.runtime.emission.EXECUTION_DTYPE.
struct PlacedExecution {
  int64_t launch_start_ns, launch_end_ns;  // host, real
  int64_t device_start_ns, device_end_ns;
  uint64_t correlation;  // of the CPU op, 0 for none
  int64_t exec_id;
  int64_t bytes;     // moved from and to HBM, or copied
  uint32_t thread;   // of the launch
  uint32_t name;     // index into names
  uint32_t program;  // index into the metadata rows
  int16_t device, stream;
  uint8_t category;  // 0 kernel, 1 copy
  uint8_t pad[7];
};
static_assert(sizeof(PlacedExecution) == 80);

}  // namespace trnscope
