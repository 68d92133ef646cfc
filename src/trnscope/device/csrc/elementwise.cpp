// The commonest elementwise ops without boxing and without aliases.
//
// Operands of one device, floating type, size and row-major layout need nothing that the general path provides: an
// iterator over the neuron tensors themselves drives the CPU's loop. Everything else takes the general path. Either
// way there is one record, and the loop that runs is the same.

// libtorch exports the loops of each instruction set, not the function that chooses among them. The build that made
// libtorch declares them through these.
#if defined(__x86_64__)
#define HAVE_AVX2_CPU_DEFINITION
#define HAVE_AVX512_CPU_DEFINITION
#endif

#include "allocator.h"
#include "dispatch.h"
#include "streams.h"

#include <ATen/TensorIterator.h>
#include <ATen/Version.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/UnaryOps.h>

#include <algorithm>

namespace trnscope {
namespace {

template <size_t N>
struct Name {
  constexpr Name(const char (&name)[N]) { std::copy_n(name, N, text); }
  char text[N];
};

// The CPU's loop of an op for this machine, chosen as libtorch does: its best instruction set, or the next lower one
// that the op has a loop for.
template <auto* Stub>
auto loop() {
  using Dispatch = std::remove_pointer_t<decltype(Stub)>;
  static const auto chosen = [] {
#if defined(__x86_64__)
    const auto capability = at::get_cpu_capability();
    if (capability == "AVX512" && Dispatch::AVX512 != nullptr) return Dispatch::AVX512;
    if (capability == "AVX512" || capability == "AVX2") return Dispatch::AVX2;
#endif
    return Dispatch::DEFAULT;
  }();
  return chosen;
}

struct Op {
  explicit Op(const char* name) : handle(aten_op(name)), general(handle, c10::KernelFunction()) {}
  c10::OperatorHandle handle;
  RecordedKernel general;
};

template <Name name>
const Op& op_of() {
  static const Op op(name.text);
  return op;
}

template <class... Arguments>
at::Tensor run_general(const Op& op, Arguments&&... arguments) {
  torch::jit::Stack stack;
  stack.reserve(sizeof...(arguments));
  (stack.emplace_back(std::forward<Arguments>(arguments)), ...);
  op.general(op.handle, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), &stack);
  return std::move(stack.back()).toTensor();
}

bool plain(const c10::TensorImpl& tensor) {
  return tensor.is_privateuseone() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg() &&
         at::isFloatingType(c10::typeMetaToScalarType(tensor.dtype()));
}

bool plain_pair(const c10::TensorImpl& a, const c10::TensorImpl& b) {
  return plain(a) && b.is_privateuseone() && a.device() == b.device() && a.dtype() == b.dtype() &&
         a.sizes() == b.sizes() && b.is_contiguous() && !b.is_neg();
}

at::Tensor empty_like(const c10::TensorImpl& model) {
  const auto nbytes = static_cast<size_t>(model.numel()) * model.itemsize();
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<int64_t>(nbytes)),
      allocate_on(model.device().index(), nbytes), &allocator(), true);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), model.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(model.sizes());
  return tensor;
}

// Records `arguments`, runs `loop` and commits; `result` is what the op returns.
template <class Loop, size_t N>
void record(const Op& op, const at::Tensor& result, bool writes, const c10::IValue (&arguments)[N], Loop loop) {
  initialize();
  OpRecording recording(op.handle);
  if (recording.live()) recording.inputs(arguments);
  loop();
  if (!recording.live()) return;
  const c10::IValue results[] = {result};
  recording.outputs(results);
  const auto device = result.device().index();
  const uint8_t flags = (writes ? flag::mutates : 0) | (settings().launch_blocking ? flag::blocking : 0);
  recording.commit(Kind::op, device, current_queue(device), 0, flags);
}

template <auto* Stub, Name name>
at::Tensor unary(const at::Tensor& self) {
  const auto& op = op_of<name>();
  const auto& impl = *self.unsafeGetTensorImpl();
  if (!plain(impl) || settings().shapes_only) return run_general(op, self);
  at::Tensor result = empty_like(impl);
  record(op, result, false, {self}, [&] {
    auto iterator = at::TensorIterator::unary_op(result, self);
    loop<Stub>()(iterator);
  });
  return result;
}

template <auto* Stub, Name name>
at::Tensor binary(const at::Tensor& self, const at::Tensor& other) {
  const auto& op = op_of<name>();
  const auto& impl = *self.unsafeGetTensorImpl();
  if (!plain_pair(impl, *other.unsafeGetTensorImpl()) || settings().shapes_only) return run_general(op, self, other);
  const at::Tensor result = empty_like(impl);
  record(op, result, false, {self, other}, [&] {
    auto iterator = at::TensorIterator::borrowing_binary_op(result, self, other);
    loop<Stub>()(iterator);
  });
  return result;
}

template <auto* Stub, Name name>
at::Tensor& binary_(at::Tensor& self, const at::Tensor& other) {
  const auto& op = op_of<name>();
  if (!plain_pair(*self.unsafeGetTensorImpl(), *other.unsafeGetTensorImpl()) || settings().shapes_only) {
    run_general(op, self, other);
    return self;
  }
  record(op, self, true, {self, other}, [&] {
    auto iterator = at::TensorIterator::borrowing_binary_op(self, self, other);
    loop<Stub>()(iterator);
  });
  return self;
}

// self + sign * alpha * other
template <int sign, Name name>
at::Tensor sum(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  const auto& op = op_of<name>();
  const auto& impl = *self.unsafeGetTensorImpl();
  if (!plain_pair(impl, *other.unsafeGetTensorImpl()) || alpha.isComplex() || settings().shapes_only)
    return run_general(op, self, other, alpha);
  const at::Tensor result = empty_like(impl);
  record(op, result, false, {self, other, alpha}, [&] {
    auto iterator = at::TensorIterator::borrowing_binary_op(result, self, other);
    loop<&at::native::add_stub>()(iterator, sign > 0 ? alpha : -alpha);
  });
  return result;
}

template <int sign, Name name>
at::Tensor& sum_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  const auto& op = op_of<name>();
  if (!plain_pair(*self.unsafeGetTensorImpl(), *other.unsafeGetTensorImpl()) || alpha.isComplex() ||
      settings().shapes_only) {
    run_general(op, self, other, alpha);
    return self;
  }
  record(op, self, true, {self, other, alpha}, [&] {
    auto iterator = at::TensorIterator::borrowing_binary_op(self, self, other);
    loop<&at::native::add_stub>()(iterator, sign > 0 ? alpha : -alpha);
  });
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using namespace at::native;  // NOLINT(google-build-using-namespace): the names of the stubs
  m.impl("add.Tensor", &sum<1, "add.Tensor">);
  m.impl("add_.Tensor", &sum_<1, "add_.Tensor">);
  m.impl("sub.Tensor", &sum<-1, "sub.Tensor">);
  m.impl("sub_.Tensor", &sum_<-1, "sub_.Tensor">);
  m.impl("mul.Tensor", &binary<&mul_stub, "mul.Tensor">);
  m.impl("mul_.Tensor", &binary_<&mul_stub, "mul_.Tensor">);
  m.impl("div.Tensor", &binary<&div_true_stub, "div.Tensor">);
  m.impl("div_.Tensor", &binary_<&div_true_stub, "div_.Tensor">);
  m.impl("exp", &unary<&exp_stub, "exp">);
  m.impl("neg", &unary<&neg_stub, "neg">);
  m.impl("rsqrt", &unary<&rsqrt_stub, "rsqrt">);
  m.impl("sigmoid", &unary<&sigmoid_stub, "sigmoid">);
  m.impl("sqrt", &unary<&sqrt_stub, "sqrt">);
  m.impl("tanh", &unary<&tanh_stub, "tanh">);
}

}  // namespace
}  // namespace trnscope
