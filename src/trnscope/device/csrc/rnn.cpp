// Cells of recurrent networks after their matrix products, as one execution each.
#include "dispatch.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

namespace trnscope {
namespace {

at::Tensor add_bias(const at::Tensor& gates, const std::optional<at::Tensor>& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                         const at::Tensor& cell,
                                                         const std::optional<at::Tensor>& input_bias,
                                                         const std::optional<at::Tensor>& hidden_bias) {
  const auto gates = (add_bias(input_gates, input_bias) + add_bias(hidden_gates, hidden_bias)).chunk(4, 1);
  const auto in = gates[0].sigmoid(), forget = gates[1].sigmoid(), candidate = gates[2].tanh(),
             out = gates[3].sigmoid();
  const auto next = forget * cell + in * candidate;
  return {out * next.tanh(), next, at::cat({in, forget, candidate, out}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const std::optional<at::Tensor>& grad_hidden,
                                                                  const std::optional<at::Tensor>& grad_cell,
                                                                  const at::Tensor& cell, const at::Tensor& next,
                                                                  const at::Tensor& workspace, bool has_bias) {
  const bool from_hidden = grad_hidden.has_value() && grad_hidden->defined();
  const bool from_cell = grad_cell.has_value() && grad_cell->defined();
  if (!from_hidden && !from_cell) return {};
  const auto gates = workspace.chunk(4, 1);
  const auto &in = gates[0], &forget = gates[1], &candidate = gates[2], &out = gates[3];
  const auto squashed = next.tanh();
  const auto grad_h = from_hidden ? *grad_hidden : at::zeros_like(next);
  auto grad_next = grad_h * out * (1 - squashed * squashed);
  if (from_cell) grad_next = grad_next + *grad_cell;
  const auto grad_gates = at::cat({grad_next * candidate * in * (1 - in), grad_next * cell * forget * (1 - forget),
                                   grad_next * in * (1 - candidate * candidate), grad_h * squashed * out * (1 - out)},
                                  1);
  return {grad_gates, grad_next * forget, has_bias ? grad_gates.sum(0) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                            const at::Tensor& hidden, const std::optional<at::Tensor>& input_bias,
                                            const std::optional<at::Tensor>& hidden_bias) {
  const auto input = add_bias(input_gates, input_bias).chunk(3, 1);
  const auto recurrent = add_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const auto reset = (input[0] + recurrent[0]).sigmoid(), update = (input[1] + recurrent[1]).sigmoid();
  const auto candidate = (input[2] + reset * recurrent[2]).tanh();
  return {candidate + update * (hidden - candidate), at::cat({reset, update, candidate, hidden, recurrent[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(const at::Tensor& grad,
                                                                                         const at::Tensor& workspace,
                                                                                         bool has_bias) {
  const auto saved = workspace.chunk(5, 1);
  const auto &reset = saved[0], &update = saved[1], &candidate = saved[2], &hidden = saved[3], &recurrent = saved[4];
  const auto grad_update = grad * (hidden - candidate) * (1 - update) * update;
  const auto grad_candidate = grad * (1 - update) * (1 - candidate * candidate);
  const auto grad_reset = grad_candidate * recurrent * (1 - reset) * reset;
  const auto grad_input = at::cat({grad_reset, grad_update, grad_candidate}, 1);
  const auto grad_recurrent = at::cat({grad_reset, grad_update, grad_candidate * reset}, 1);
  return {grad_input, grad_recurrent, grad * update, has_bias ? grad_input.sum(0) : at::Tensor(),
          has_bias ? grad_recurrent.sum(0) : at::Tensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_host_kernel<&lstm_cell>(m, "_thnn_fused_lstm_cell");
  register_host_kernel<&lstm_cell_backward>(m, "_thnn_fused_lstm_cell_backward_impl");
  register_host_kernel<&gru_cell>(m, "_thnn_fused_gru_cell");
  register_host_kernel<&gru_cell_backward>(m, "_thnn_fused_gru_cell_backward");
}

}  // namespace
}  // namespace trnscope
