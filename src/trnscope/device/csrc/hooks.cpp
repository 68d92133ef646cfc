// The hooks through which generic PyTorch code reaches the device.
#include "allocator.h"
#include "generator.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>

namespace trnscope {
namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return settings().device_count > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return settings().device_count; }
  void setCurrentDevice(c10::DeviceIndex device) const override { exchange_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return new_generator(device); }
  // No copy is made by hardware, so ordinary memory serves as pinned; loaders ask for it beside any accelerator.
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  bool isPinnedPtr(const void*) const override { return false; }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    auto* impl = storage.unsafeGetStorageImpl();
    TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable");
    auto grown = allocate_on(storage.device().index(), nbytes);
    const auto kept = std::min(nbytes, impl->nbytes());
    if (kept != 0 && !settings().shapes_only) std::memcpy(grown.mutable_get(), impl->data(), kept);
    impl->set_data_ptr_noswap(std::move(grown));
    impl->set_nbytes(nbytes);
  }
};

// PyTorch keeps the pointer for the life of the process.
const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(std::make_unique<Hooks>().release());
  return true;
}();

}  // namespace
}  // namespace trnscope
