// Tensors without values yet: they cost the device nothing and are not recorded.
#include "allocator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

namespace trnscope {
namespace {

class CurrentDevice {
 public:
  explicit CurrentDevice(std::optional<c10::Device> device)
      : previous_(exchange_device(checked_device(device ? device->index() : -1))) {}
  ~CurrentDevice() { uncheck_set_device(previous_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  c10::DeviceIndex previous_;
};

void check_dense(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(!layout || *layout == c10::Layout::Strided, "neuron tensors are dense: layout ", *layout,
              " is not supported; create the tensor on the CPU and call .to_dense() first");
  TORCH_CHECK(!pin_memory || !*pin_memory, "Only dense CPU tensors can be pinned");
}

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pin_memory,
                 std::optional<at::MemoryFormat> memory_format) {
  check_dense(layout, pin_memory);
  const CurrentDevice current(device);
  return at::Tensor(at::detail::empty_generic(size, &allocator(), kKeys, c10::dtype_or_default(dtype), memory_format));
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pin_memory) {
  check_dense(layout, pin_memory);
  const CurrentDevice current(device);
  return at::Tensor(
      at::detail::empty_strided_generic(size, stride, &allocator(), kKeys, c10::dtype_or_default(dtype)));
}

// Real zeros: the CPU's has no memory at all, which no other kernel here could read.
at::Tensor efficient_zeros(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                           std::optional<at::Device> device, std::optional<bool> pin_memory) {
  return at::zeros(size, dtype, layout, device, pin_memory);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_efficientzerotensor", &efficient_zeros);
}

}  // namespace
}  // namespace trnscope
