#include "dispatch.h"

#include "streams.h"

#include <ATen/record_function.h>

namespace trnscope {

c10::OperatorHandle aten_op(std::string_view name_and_overload) {
  const auto dot = name_and_overload.find('.');
  const auto name = "aten::" + std::string(name_and_overload.substr(0, dot));
  const auto overload = dot == std::string_view::npos ? std::string() : std::string(name_and_overload.substr(dot + 1));
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
}

void RecordedKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) const {
  OpRecording recording(op);
  if (recording.live()) recording.inputs(torch::jit::last(*stack, traits_.arguments));
  HostCall call(op, traits_, *stack);
  {
    // what the host kernel calls is not what the device does: it stays out of profiles
    const at::RecordFunctionGuard unprofiled(false);
    if (C10_UNLIKELY(settings().shapes_only))
      infer_shapes(op, stack);
    else if (host_.isValid())
      host_.callBoxed(op, host_keys(), stack);
    else
      op.redispatchBoxed(host_keys(), stack);
  }
  call.finish();
  if (!recording.live()) return;
  recording.outputs(torch::jit::last(*stack, traits_.returns));
  uint8_t flags = traits_.writes ? flag::mutates : 0;
  if (settings().shapes_only) flags |= flag::shapes_only;
  if (traits_.answers_host || settings().launch_blocking) flags |= flag::blocking;
  recording.commit(Kind::op, call.device(), current_queue(call.device()), 0, flags, origin_);
}

void RecordedKernel::infer_shapes(const c10::OperatorHandle& op, torch::jit::Stack* stack) const {
  TORCH_CHECK_NOT_IMPLEMENTED(!traits_.answers_host, op.operator_name(),
                              " needs values, and TRNSCOPE_COMPUTE=shapes computes none. Run with "
                              "TRNSCOPE_COMPUTE=values, or take this op out of what is estimated.");
  if (op.hasKernelForDispatchKey(c10::DispatchKey::Meta))
    op.redispatchBoxed(host_keys(), stack);
  else if (host_.isValid())
    host_.callBoxed(op, host_keys(), stack);
  else
    TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(),
                                " has no shape function, which TRNSCOPE_COMPUTE=shapes needs. Run with "
                                "TRNSCOPE_COMPUTE=values.");
}

torch::CppFunction recorded_kernel(const c10::OperatorHandle& op, c10::KernelFunction host) {
  return torch::CppFunction::makeFromBoxedKernel(
      c10::BoxedKernel::makeFromFunctor(std::make_unique<RecordedKernel>(op, std::move(host))));
}

int64_t register_host_kernels() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  int64_t registered = 0;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || op->schema().getNamespace() != "aten") continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
    if (op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    const auto full = toString(name);
    library.impl(full.c_str(), recorded_kernel(*op, {}));
    ++registered;
  }
  return registered;
}

}  // namespace trnscope
