// RMSNorm as one execution, forward and backward.
#include "dispatch.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>

#include <numeric>

namespace trnscope {
namespace {

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& input, c10::IntArrayRef normalized_shape,
                                            const std::optional<at::Tensor>& weight, std::optional<double> epsilon) {
  return at::_fused_rms_norm(input, normalized_shape, weight, epsilon);
}

// With y = x * r * w and r = (mean(x^2) + eps)^-1/2:
//   dx = r * (g - xhat * mean(g * xhat)),  g = dy * w,  xhat = x * r
//   dw = sum over the rows of dy * xhat
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                                     c10::IntArrayRef normalized_shape, const at::Tensor& rstd,
                                                     const std::optional<at::Tensor>& weight,
                                                     std::array<bool, 2> output_mask) {
  const auto rows = input.dim() - static_cast<int64_t>(normalized_shape.size());
  std::vector<int64_t> row_dims(rows), normalized_dims(normalized_shape.size());
  std::iota(row_dims.begin(), row_dims.end(), 0);
  std::iota(normalized_dims.begin(), normalized_dims.end(), rows);
  const bool weighted = weight.has_value() && weight->defined();
  const auto type = rstd.scalar_type();
  const auto grad = grad_output.to(type);
  const auto normalized = input.to(type) * rstd;
  at::Tensor grad_input, grad_weight;
  if (output_mask[0]) {
    const auto scaled = weighted ? grad * weight->to(type) : grad;
    grad_input = (rstd * (scaled - normalized * (scaled * normalized).mean(normalized_dims, true)))
                     .to(input.scalar_type());
  }
  if (output_mask[1] && weighted) {
    const auto product = grad * normalized;
    grad_weight = (row_dims.empty() ? product : product.sum(row_dims)).to(weight->scalar_type());
  }
  return {grad_input, grad_weight};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_host_kernel<&rms_norm>(m, "_fused_rms_norm");
  register_host_kernel<&rms_norm_backward>(m, "_fused_rms_norm_backward");
}

}  // namespace
}  // namespace trnscope
