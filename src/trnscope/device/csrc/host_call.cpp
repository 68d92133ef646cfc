#include "host_call.h"

#include "allocator.h"
#include "generator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>

namespace trnscope {
namespace {

bool is_neuron(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->is_privateuseone(); }

// Device memory that takes over what a kernel allocated.
c10::DataPtr take_over(c10::StorageImpl& storage, c10::DeviceIndex device) {
  if (settings().shapes_only) return allocate_on(device, storage.nbytes());
  return adopt(storage.set_data_ptr(c10::DataPtr(nullptr, c10::Device(c10::kCPU))), storage.nbytes(), device);
}

// Turns a host storage into a neuron storage in place: no second StorageImpl is needed.
void adopt_storage(c10::StorageImpl& storage, c10::DeviceIndex device) {
  storage.set_data_ptr_noswap(take_over(storage, device));
  storage.set_allocator(&allocator());
}

bool outgrown(const c10::StorageImpl& alias, const c10::StorageImpl& storage) {
  if (alias.nbytes() != storage.nbytes()) return true;
  return !settings().shapes_only && alias.data() != storage.data();
}

void move_to_storage(c10::TensorImpl& tensor, c10::Storage storage, c10::DeviceIndex device) {
  tensor.set_storage_keep_dtype(std::move(storage));
  tensor._change_backend_component_keys(c10::Device(kNeuron, device));
}

}  // namespace

OpTraits::OpTraits(const c10::OperatorHandle& op)
    : arguments(op.schema().arguments().size()), returns(op.schema().returns().size()) {
  const auto& schema = op.schema();
  for (const auto& argument : schema.arguments()) {
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) writes = true;
    const auto* type = argument.real_type().get();
    if (const auto* optional = type->castRaw<c10::OptionalType>()) type = optional->getElementType().get();
    if (type->kind() == c10::TypeKind::GeneratorType) draws = true;
    if (type->kind() == c10::TypeKind::DeviceObjType) takes_device = true;
    if (argument.name() == "indices" && argument.type()->kind() == c10::TypeKind::ListType) indexes = true;
  }
  for (const auto& result : schema.returns()) {
    // a SymInt is a size, known without values
    const auto kind = result.real_type()->kind();
    if (kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType && kind != c10::TypeKind::SymIntType)
      answers_host = true;
  }
  static const char* const sized_by_values[] = {
      "aten::nonzero", "aten::masked_select", "aten::_unique", "aten::_unique2", "aten::unique_dim",
      "aten::unique_consecutive", "aten::unique_dim_consecutive", "aten::bincount",
  };
  // the size of the result depends on values: a device has to tell the host before the result can exist
  if (std::find(std::begin(sized_by_values), std::end(sized_by_values), schema.name()) != std::end(sized_by_values))
    answers_host = true;
}

at::Tensor host_view(const at::Tensor& tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  auto keys = host_keys();
  if (impl->is_conj()) keys = keys.add(c10::DispatchKey::Conjugate);
  if (impl->is_neg()) keys = keys.add(c10::DispatchKey::Negative);
  auto view = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(host_alias(*impl->unsafe_storage().unsafeGetStorageImpl())), keys, impl->dtype());
  view->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
  if (impl->is_wrapped_number()) view->set_wrapped_number(true);
  return at::Tensor(std::move(view));
}

at::Tensor to_device(at::Tensor host, c10::DeviceIndex device) {
  auto* impl = host.unsafeGetTensorImpl();
  const auto& storage = impl->unsafe_storage();
  if (storage.device_type() != kNeuron) adopt_storage(*storage.unsafeGetStorageImpl(), device);
  move_to_storage(*impl, storage, device);
  return host;
}

HostCall::HostCall(const c10::OperatorHandle& op, const OpTraits& traits, torch::jit::Stack& stack)
    : op_(op), traits_(traits), stack_(stack) {
  initialize();
  const auto arguments = torch::jit::last(stack_, traits_.arguments);
  for (const auto& value : arguments) find_device(value);
  if (device_ < 0) device_ = current_device();
  TORCH_CHECK(!foreign_,
              "Expected all tensors to be on the same device, but found at least two devices, neuron:",
              static_cast<int>(device_), " and cpu! (when calling ", op.operator_name(), ")");
  for (auto i = stack_.size() - traits_.arguments; i < stack_.size(); ++i) present(stack_[i]);
  if (!traits_.draws && !traits_.takes_device) return;
  const auto& schema = op_.schema().arguments();
  for (uint32_t i = 0; i < traits_.arguments; ++i) {
    auto& value = stack_[stack_.size() - traits_.arguments + i];
    const auto* type = schema[i].real_type().get();
    if (const auto* optional = type->castRaw<c10::OptionalType>()) type = optional->getElementType().get();
    if (type->kind() == c10::TypeKind::GeneratorType)
      value = host_generator(value.isGenerator() ? value.toGenerator() : default_generator(device_));
    else if (value.isDevice() && value.toDevice().type() == kNeuron)
      value = c10::Device(host_device_type());
  }
}

void HostCall::meet(const at::Tensor& tensor, bool is_list_item) {
  if (!tensor.defined()) return;
  if (is_neuron(tensor)) {
    const auto index = tensor.unsafeGetTensorImpl()->device().index();
    TORCH_CHECK(device_ < 0 || device_ == index,
                "Expected all tensors to be on the same device, but found at least two devices, neuron:",
                static_cast<int>(device_), " and neuron:", static_cast<int>(index), "! (when calling ",
                op_.operator_name(), ")");
    device_ = index;
  } else if (tensor.dim() != 0 && !(is_list_item && traits_.indexes)) {
    foreign_ = true;
  }
}

void HostCall::find_device(const c10::IValue& value) {
  if (value.isTensor()) {
    meet(value.toTensor(), false);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) meet(tensor, true);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef())
      if (item.isTensor()) meet(item.toTensor(), true);
  } else if (traits_.takes_device && value.isDevice() && value.toDevice().type() == kNeuron) {
    device_ = checked_device(value.toDevice().index());
  }
}

at::Tensor HostCall::present(at::Tensor tensor) {
  if (!tensor.defined()) return tensor;
  if (!is_neuron(tensor)) {
    const bool has_twin = settings().shapes_only && tensor.dim() != 0 && tensor.device().type() == c10::kCPU;
    return has_twin ? at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta)) : tensor;
  }
  for (const auto& known : presented_)
    if (known.device.is_same(tensor)) return known.host;
  auto host = host_view(tensor);
  presented_.push_back({std::move(tensor), host});
  return host;
}

void HostCall::present(c10::IValue& value) {
  if (value.isTensor()) {
    value = present(std::move(value).toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> hosts;
    for (const at::Tensor& tensor : value.toTensorList()) hosts.push_back(present(tensor));
    value = std::move(hosts);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> hosts;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList())
      hosts.push_back(tensor ? std::optional<at::Tensor>(present(*tensor)) : std::nullopt);
    value = std::move(hosts);
  }
}

void HostCall::carry_over(const Presented& argument) {
  auto* device = argument.device.unsafeGetTensorImpl();
  auto* host = argument.host.unsafeGetTensorImpl();
  auto* storage = device->unsafe_storage().unsafeGetStorageImpl();
  auto* alias = host->unsafe_storage().unsafeGetStorageImpl();
  if (outgrown(*alias, *storage)) {
    // the new bytes become the neuron storage's
    const auto nbytes = alias->nbytes();
    storage->set_data_ptr_noswap(take_over(*alias, device_));
    storage->set_nbytes(nbytes);
  }
  if (host->sizes() != device->sizes() || host->strides() != device->strides() ||
      host->storage_offset() != device->storage_offset())
    device->set_sizes_and_strides(host->sizes(), host->strides(), host->storage_offset());
}

at::Tensor HostCall::return_to_device(at::Tensor tensor) {
  if (!tensor.defined() || is_neuron(tensor)) return tensor;
  auto* impl = tensor.unsafeGetTensorImpl();
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided && !tensor.is_quantized(), op_.operator_name(),
                              ": the neuron device has no ", tensor.is_quantized() ? "quantized" : "sparse",
                              " tensors. Move the tensor to the CPU first.");
  const auto& storage = impl->unsafe_storage();
  for (const auto& argument : presented_) {
    if (argument.host.is_same(tensor)) return argument.device;
    if (argument.host.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) {
      move_to_storage(*impl, argument.device.unsafeGetTensorImpl()->unsafe_storage(), device_);
      return tensor;
    }
  }
  return to_device(std::move(tensor), device_);
}

void HostCall::return_to_device(c10::IValue& value) {
  if (value.isTensor()) {
    value = return_to_device(std::move(value).toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> results;
    for (const at::Tensor& tensor : value.toTensorList()) results.push_back(return_to_device(tensor));
    value = std::move(results);
  }
}

void HostCall::finish() {
  if (traits_.writes)
    for (const auto& argument : presented_) carry_over(argument);
  for (auto i = stack_.size() - traits_.returns; i < stack_.size(); ++i) return_to_device(stack_[i]);
}

}  // namespace trnscope
