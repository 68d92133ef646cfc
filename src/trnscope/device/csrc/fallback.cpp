#include "fallback.h"

#include "dispatch.h"

#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

namespace trnscope {
namespace {

std::mutex mutex;
std::set<std::string> seen;
std::unordered_map<c10::OperatorName, std::unique_ptr<RecordedKernel>> kernels;

const RecordedKernel& kernel_of(const c10::OperatorHandle& op) {
  std::lock_guard guard(mutex);
  const auto& name = op.operator_name();
  seen.insert(c10::toString(name));
  auto& kernel = kernels[name];
  if (!kernel) kernel = std::make_unique<RecordedKernel>(op, c10::KernelFunction(), Origin::fallback);
  return *kernel;
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasKernelForDispatchKey(c10::DispatchKey::CPU), op.operator_name(),
                              " has a kernel neither for the neuron device nor for the CPU. Move its arguments to the "
                              "device it is written for, or register a CPU kernel.");
  kernel_of(op)(op, keys, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

}  // namespace

std::vector<std::string> fallback_ops() {
  std::lock_guard guard(mutex);
  return {seen.begin(), seen.end()};
}

void clear_fallback_ops() {
  std::lock_guard guard(mutex);
  seen.clear();
}

}  // namespace trnscope
