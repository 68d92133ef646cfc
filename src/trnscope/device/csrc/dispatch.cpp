#include "dispatch.h"

#include "recorder.h"
#include "streams.h"

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
  constexpr auto kHost = c10::DispatchKeySet(c10::DispatchKey::CPU);
  if (host_.isValid())
    host_.callBoxed(op, kHost, stack);
  else
    op.redispatchBoxed(kHost, stack);
  call.finish();
  if (!recording.live()) return;
  recording.outputs(torch::jit::last(*stack, traits_.returns));
  uint8_t flags = traits_.writes ? flag::mutates : 0;
  if (traits_.answers_host || settings().launch_blocking) flags |= flag::blocking;
  recording.commit(Kind::op, call.device(), current_queue(call.device()), 0, flags);
}

torch::CppFunction recorded_kernel(const c10::OperatorHandle& op, c10::KernelFunction host) {
  auto kernel = host.isValid() ? std::make_unique<RecordedKernel>(op, std::move(host))
                               : std::make_unique<RecordedKernel>(op);
  return torch::CppFunction::makeFromBoxedKernel(c10::BoxedKernel::makeFromFunctor(std::move(kernel)));
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
