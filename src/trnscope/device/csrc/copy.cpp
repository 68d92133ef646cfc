// Copies between host and device and between devices, and numbers that the host asks for.
#include "dispatch.h"
#include "recorder.h"
#include "streams.h"

#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/record_function.h>

#include <limits>

namespace trnscope {
namespace {

bool is_neuron(const at::Tensor& tensor) { return tensor.device().type() == kNeuron; }
at::Tensor on_host(const at::Tensor& tensor) { return is_neuron(tensor) ? host_view(tensor) : tensor; }

// Bytes on the link: values are converted at the source, so they travel in the destination's type.
int64_t transfer_bytes(const at::Tensor& destination) { return static_cast<int64_t>(destination.nbytes()); }

void copy_values(const c10::OperatorHandle& op, at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  initialize();
  const bool to_neuron = is_neuron(self);
  const bool from_neuron = is_neuron(source);
  OpRecording recording(op);
  if (recording.live()) {
    const c10::IValue arguments[] = {self, source, non_blocking};
    recording.inputs(arguments);
  }
  if (C10_UNLIKELY(settings().shapes_only)) {
    // the host gets marks, not numbers that look computed
    if (!to_neuron && self.is_floating_point()) self.fill_(std::numeric_limits<double>::quiet_NaN());
  } else {
    const at::RecordFunctionGuard unprofiled(false);
    auto host = on_host(self);
    host.copy_(on_host(source));
  }
  if (!recording.live()) return;
  const c10::IValue results[] = {self};
  recording.outputs(results);
  const auto device = (to_neuron ? self : source).device().index();
  uint8_t flags = settings().launch_blocking ? flag::blocking : 0;
  if (settings().shapes_only) flags |= flag::shapes_only;
  auto kind = Kind::op;
  if (!from_neuron) kind = Kind::copy_h2d;
  else if (!to_neuron) kind = Kind::copy_d2h;
  else if (self.device() != source.device()) kind = Kind::copy_d2d;
  if (kind == Kind::op) flags |= flag::mutates;
  else if (non_blocking) flags |= flag::non_blocking;
  recording.commit(kind, device, current_queue(device), kind == Kind::op ? 0 : transfer_bytes(self), flags);
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  static const auto op = aten_op("copy_");
  if (!self.is_same(source)) copy_values(op, self, source, non_blocking);
  return self;
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& destination, bool non_blocking) {
  auto target = destination;
  copy_(target, source, non_blocking);
  return destination;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& destination) {
  if (destination.sizes() != source.sizes()) destination.resize_(source.sizes());
  return copy_from(source, destination, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  static const auto op = aten_op("_local_scalar_dense");
  OpRecording recording(op);
  if (recording.live()) {
    const c10::IValue arguments[] = {self};
    recording.inputs(arguments);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(!settings().shapes_only,
                              "aten::_local_scalar_dense (item() and the like) needs a value, and "
                              "TRNSCOPE_COMPUTE=shapes computes none. Run with TRNSCOPE_COMPUTE=values, or do not ask "
                              "for the value.");
  const at::RecordFunctionGuard unprofiled(false);
  const auto value = at::_local_scalar_dense(host_view(self));
  if (recording.live()) {
    const auto device = self.device().index();
    recording.outputs({});
    recording.commit(Kind::copy_d2h, device, current_queue(device), self.itemsize(), flag::blocking);
  }
  return value;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", &copy_);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
}

// Without these the lazy conjugation and negation would be resolved by a copy of their own, which ends here again.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace
}  // namespace trnscope
