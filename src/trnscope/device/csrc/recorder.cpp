// Counts what happens; the log itself comes with the recorder.
#include "recorder.h"

#include <atomic>

namespace trnscope {
namespace {
std::atomic<int64_t> committed{0};
}

OpRecording::OpRecording(const c10::OperatorHandle& op) : live_(true), op_(&op) {}
OpRecording::~OpRecording() = default;
void OpRecording::inputs(c10::ArrayRef<c10::IValue>) {}
void OpRecording::outputs(c10::ArrayRef<c10::IValue>) {}
void OpRecording::commit(Kind, int, int, int64_t, uint8_t) { committed.fetch_add(1, std::memory_order_relaxed); }
void record_host(Kind, int, int, int64_t) { committed.fetch_add(1, std::memory_order_relaxed); }
int64_t event_time_ns(int64_t) { TORCH_CHECK(false, "this build has no clock"); }

}  // namespace trnscope
