// Runs an op's host kernel on the bytes of neuron tensors, without copying any.
//
// Every neuron tensor on the stack is presented to the kernel as a CPU tensor over the same bytes; what the kernel
// returns becomes a neuron tensor again: the argument itself (in-place and out= ops), a view of an argument's
// storage, or fresh memory that is taken over. When no values are computed, meta tensors take the place of CPU ones.
#pragma once

#include "device.h"

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

namespace trnscope {

// What dispatch needs to know of an op beyond its schema, found once at registration.
struct OpTraits {
  explicit OpTraits(const c10::OperatorHandle& op);

  uint32_t arguments;
  uint32_t returns;
  bool writes = false;          // some argument is written
  bool draws = false;           // takes a Generator
  bool takes_device = false;    // has a Device argument
  bool answers_host = false;    // returns a number to the host: the host has to wait for it
  bool indexes = false;         // CPU index tensors are allowed beside neuron tensors
};

class HostCall {
 public:
  // Presents the arguments, the last `traits.arguments` values of the stack. Throws for tensors of mixed devices.
  HostCall(const c10::OperatorHandle& op, const OpTraits& traits, torch::jit::Stack& stack);

  // The logical core the op runs on.
  c10::DeviceIndex device() const { return device_; }
  // Turns the returned values on the stack into neuron tensors.
  void finish();

 private:
  struct Presented {
    at::Tensor device;
    at::Tensor host;
  };

  void find_device(const c10::IValue& value);
  void meet(const at::Tensor& tensor, bool is_list_item);
  void present(c10::IValue& value);
  at::Tensor present(at::Tensor tensor);
  void return_to_device(c10::IValue& value);
  at::Tensor return_to_device(at::Tensor tensor);
  void carry_over(const Presented& argument);

  const c10::OperatorHandle& op_;
  const OpTraits& traits_;
  torch::jit::Stack& stack_;
  c10::DeviceIndex device_ = -1;
  bool foreign_ = false;  // a CPU tensor with dimensions among the arguments
  c10::SmallVector<Presented, 6> presented_;
};

// The dispatch keys of host tensors.
inline c10::DispatchKeySet host_keys() noexcept {
  return c10::DispatchKeySet(settings().shapes_only ? c10::DispatchKey::Meta : c10::DispatchKey::CPU);
}

// A CPU (or meta) tensor over the same bytes.
at::Tensor host_view(const at::Tensor& tensor);
// Takes over a CPU (or meta) tensor, with its memory, as a neuron tensor. The tensor must not be used as a CPU one again.
at::Tensor to_device(at::Tensor host, c10::DeviceIndex device);

}  // namespace trnscope
