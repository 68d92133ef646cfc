// Convolutions: generic PyTorch code asks a device of this kind for the overrideable ops.
#include "dispatch.h"

#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

namespace trnscope {
namespace {

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                       c10::IntArrayRef output_padding, int64_t groups) {
  return at::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef output_padding,
    int64_t groups, std::array<bool, 3> output_mask) {
  const int64_t bias_size = transposed ? weight.size(1) * groups : weight.size(0);
  return at::convolution_backward(grad_output, input, weight, c10::IntArrayRef(bias_size), stride, padding, dilation,
                                  transposed, output_padding, groups, output_mask);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_host_kernel<&convolution>(m, "convolution_overrideable");
  register_host_kernel<&convolution_backward>(m, "convolution_backward_overrideable");
}

}  // namespace
}  // namespace trnscope
