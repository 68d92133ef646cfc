// What the device refuses, in one clear error each.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKey.h>
#include <torch/library.h>

namespace trnscope {
namespace {

const char* layout_name(c10::DispatchKeySet keys) {
  using c10::DispatchKey;
  if (keys.has(DispatchKey::SparsePrivateUse1)) return "sparse";
  if (keys.has(DispatchKey::SparseCsrPrivateUse1)) return "sparse compressed";
  if (keys.has(DispatchKey::QuantizedPrivateUse1)) return "quantized";
  return "nested";
}

void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack*) {
  const auto* name = layout_name(keys);
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(), ": the neuron device has no ", name,
                              " tensors. Keep it on the CPU, or make it a dense (strided) tensor first.");
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>()); }
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>()); }
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

}  // namespace
}  // namespace trnscope
