// Kernels of the dispatch key: recorded host calls.
#pragma once

#include "host_call.h"
#include "recorder.h"

#include <torch/library.h>

namespace trnscope {

// The recorded execution of one op: `compute` runs its values on CPU tensors that stand for the neuron ones.
class RecordedKernel : public c10::OperatorKernel {
 public:
  // Runs `host`, a function over CPU tensors with the signature of the op; without one, the op's own CPU kernel.
  RecordedKernel(const c10::OperatorHandle& op, c10::KernelFunction host, Origin origin = Origin::eager)
      : traits_(op), host_(std::move(host)), origin_(origin) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) const;

 private:
  // Runs the op on meta tensors.
  void infer_shapes(const c10::OperatorHandle& op, torch::jit::Stack* stack) const;

  OpTraits traits_;
  c10::KernelFunction host_;
  Origin origin_;
};

torch::CppFunction recorded_kernel(const c10::OperatorHandle& op, c10::KernelFunction host);
c10::OperatorHandle aten_op(std::string_view name_and_overload);

// Registers a host function for an op that has no CPU kernel, or none that should be used.
template <auto* Host>
void register_host_kernel(torch::Library& library, const char* name) {
  library.impl(name, recorded_kernel(aten_op(name), c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(Host))));
}

// Registers every op that has a CPU kernel and none of its own yet. Returns how many there are.
int64_t register_host_kernels();

}  // namespace trnscope
