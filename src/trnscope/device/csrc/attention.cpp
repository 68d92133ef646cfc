// Scaled dot product attention as one execution, forward and backward.
#include "dispatch.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <limits>

namespace trnscope {
namespace {

struct Attention {
  at::Tensor query, key, value, bias;  // heads of key and value repeated to those of the query
  double dropout;
  bool causal;
  double scale;
  int64_t groups;  // query heads per key head
};

bool given(const std::optional<at::Tensor>& tensor) { return tensor.has_value() && tensor->defined(); }

at::Tensor repeat_heads(const at::Tensor& tensor, int64_t groups) {
  return groups == 1 ? tensor : tensor.repeat_interleave(groups, -3);
}

// Gradient of repeat_heads.
at::Tensor sum_heads(const at::Tensor& grad, int64_t groups) {
  return groups == 1 ? grad : grad.unflatten(-3, {grad.size(-3) / groups, groups}).sum(-3);
}

Attention prepare(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const std::optional<at::Tensor>& bias, double dropout, bool causal, std::optional<double> scale) {
  const int64_t groups = query.size(-3) / key.size(-3);
  return {query,
          repeat_heads(key, groups),
          repeat_heads(value, groups),
          given(bias) ? *bias : at::Tensor(),
          dropout,
          causal,
          scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1)))),
          groups};
}

// What the CPU's own flash kernel takes: using it makes results equal to the CPU's to the last bit.
bool flash_fits(const Attention& a) {
  if (a.dropout != 0 || a.query.dim() != 4 || a.query.is_meta()) return false;
  if (a.query.size(-1) != a.value.size(-1) || a.query.numel() == 0 || a.key.numel() == 0) return false;
  for (const auto* tensor : {&a.query, &a.key, &a.value})
    if (tensor->stride(-1) != 1) return false;
  if (!a.bias.defined()) return true;
  if (a.causal || (a.bias.dim() != 2 && a.bias.dim() != 4)) return false;
  const auto fits = [&](int64_t dim, int64_t size) { return a.bias.size(dim) == 1 || a.bias.size(dim) == size; };
  if (!fits(-1, a.key.size(-2)) || !fits(-2, a.query.size(-2))) return false;
  return a.bias.dim() == 2 || (fits(0, a.query.size(0)) && fits(1, a.query.size(1)));
}

at::ScalarType accumulate_type(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor scores(const Attention& a, at::ScalarType type) {
  auto result = at::matmul(a.query.to(type), a.key.to(type).transpose(-2, -1)) * a.scale;
  if (a.causal) {
    const auto allowed =
        at::ones({a.query.size(-2), a.key.size(-2)}, result.options().dtype(at::kBool)).tril();
    result = result.masked_fill(allowed.logical_not(), -std::numeric_limits<double>::infinity());
  }
  if (a.bias.defined()) result = result + a.bias.to(type);
  return result;
}

// Probabilities from scores and their log-sum-exp; rows that may attend to nothing are zero.
at::Tensor probabilities(const at::Tensor& scores, const at::Tensor& logsumexp) {
  const auto rows = logsumexp.unsqueeze(-1);
  return at::exp(scores - rows).masked_fill(rows == -std::numeric_limits<double>::infinity(), 0);
}

// The dropout mask of a seed, already scaled: the backward pass draws the same one again.
at::Tensor dropout_mask(const at::Tensor& like, double dropout, int64_t seed) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  return at::bernoulli(at::full_like(like, 1 - dropout), generator) / (1 - dropout);
}

at::Tensor laid_out_like(const at::Tensor& result, const at::Tensor& model) {
  return at::empty_like(model, result.options()).resize_as_(result).copy_(result);
}

using ForwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, int64_t, int64_t, at::Tensor,
                                 at::Tensor, at::Tensor>;

ForwardResult attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const std::optional<at::Tensor>& bias, double dropout, bool causal, bool,
                        std::optional<double> scale) {
  const auto a = prepare(query, key, value, bias, dropout, causal, scale);
  const auto counters = at::TensorOptions().dtype(at::kLong).device(query.device());
  auto seed = at::full({}, 0, counters);
  const auto offset = at::full({}, 0, counters);
  at::Tensor output, logsumexp;
  if (flash_fits(a)) {
    std::tie(output, logsumexp) = at::_scaled_dot_product_flash_attention_for_cpu(
        a.query, a.key, a.value, 0, a.causal, given(bias) ? std::optional(a.bias.to(a.query.scalar_type())) : std::nullopt,
        a.scale);
  } else {
    const auto type = accumulate_type(query);
    const auto all = scores(a, type);
    logsumexp = at::logsumexp(all, {-1});
    auto weights = probabilities(all, logsumexp);
    if (dropout > 0 && !query.is_meta()) {
      seed.random_();
      weights = weights * dropout_mask(weights, dropout, seed.item<int64_t>());
    }
    output = at::matmul(weights, a.value.to(type)).to(query.scalar_type());
  }
  if (output.sizes() == query.sizes() && output.strides() != query.strides()) output = laid_out_like(output, query);
  return {output, logsumexp, {}, {}, query.size(-2), key.size(-2), seed, offset, {}};
}

using BackwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// With S = scale * Q K^T + bias, P = softmax(S), O = P V:
//   dV = P^T dO,  dP = dO V^T,  dS = P * (dP - rowsum(dO * O)),  dQ = scale * dS K,  dK = scale * dS^T Q
BackwardResult attention_backward(const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, const at::Tensor& bias, std::array<bool, 4> wanted,
                                  const at::Tensor& output, const at::Tensor& logsumexp, const at::Tensor&,
                                  const at::Tensor&, int64_t, int64_t, double dropout, bool causal,
                                  const at::Tensor& seed, const at::Tensor&, std::optional<double> scale) {
  const auto a = prepare(query, key, value, bias, dropout, causal, scale);
  const bool bias_wanted = wanted[3] && bias.defined();
  at::Tensor grad_query, grad_key, grad_value, grad_bias;
  if (flash_fits(a) && !bias_wanted) {
    std::tie(grad_query, grad_key, grad_value) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad, a.query, a.key, a.value, output, logsumexp, 0, causal,
        bias.defined() ? std::optional(bias.to(query.scalar_type())) : std::nullopt, a.scale);
  } else {
    const auto type = accumulate_type(query);
    const auto weights = probabilities(scores(a, type), logsumexp.to(type));
    const auto wide = grad.to(type);
    auto grad_weights = at::matmul(wide, a.value.to(type).transpose(-2, -1));
    auto dropped = weights;
    if (dropout > 0 && !query.is_meta()) {
      const auto mask = dropout_mask(weights, dropout, seed.item<int64_t>());
      dropped = weights * mask;
      grad_weights = grad_weights * mask;
    }
    grad_value = at::matmul(dropped.transpose(-2, -1), wide);
    const auto grad_scores = weights * (grad_weights - (wide * output.to(type)).sum(-1, true));
    grad_query = at::matmul(grad_scores, a.key.to(type)) * a.scale;
    grad_key = at::matmul(grad_scores.transpose(-2, -1), a.query.to(type)) * a.scale;
    if (bias_wanted) grad_bias = laid_out_like(grad_scores.sum_to_size(bias.sizes()).to(bias.scalar_type()), bias);
  }
  const auto finish = [&](const at::Tensor& result, const at::Tensor& model, int64_t groups) {
    return laid_out_like(sum_heads(result, groups).to(model.scalar_type()), model);
  };
  return {finish(grad_query, query, 1), finish(grad_key, key, a.groups), finish(grad_value, value, a.groups),
          grad_bias};
}

// Which implementation torch.nn.functional.scaled_dot_product_attention takes.
int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>& mask, double, bool, std::optional<double>, bool) {
  const bool batched = query.dim() == 4 && key.dim() == 4 && value.dim() == 4;
  const bool same_batch = batched && query.size(0) == key.size(0) && key.size(0) == value.size(0);
  const bool heads_fit = same_batch && key.size(1) > 0 && query.size(1) % key.size(1) == 0 && key.size(1) == value.size(1);
  const bool floating = at::isFloatingType(query.scalar_type());
  const auto& context = at::globalContext();
  const bool allowed = context.userEnabledFlashSDP() || context.userEnabledMemEfficientSDP() ||
                       context.userEnabledOverrideableSDP();
  const bool fits = heads_fit && floating && allowed && query.numel() > 0 && key.numel() > 0 && value.numel() > 0;
  return static_cast<int64_t>(fits ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_host_kernel<&attention>(m, "_scaled_dot_product_fused_attention_overrideable");
  register_host_kernel<&attention_backward>(m, "_scaled_dot_product_fused_attention_overrideable_backward");
}

}  // namespace
}  // namespace trnscope

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &trnscope::choose)
}  // namespace at::native
