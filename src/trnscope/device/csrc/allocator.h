// Device memory: values live in host memory, addresses and limits are those of the modelled HBM.
#pragma once

#include "device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StorageImpl.h>

#include <atomic>

namespace trnscope {

// What hangs on the data pointer of every neuron storage.
struct StorageContext {
  StorageContext(uint64_t id, c10::DeviceIndex device, size_t nbytes) : id(id), device(device), nbytes(nbytes) {}
  ~StorageContext();
  StorageContext(const StorageContext&) = delete;
  StorageContext& operator=(const StorageContext&) = delete;

  const uint64_t id;  // unique in the process, never used again
  const c10::DeviceIndex device;
  const size_t nbytes;
  c10::DataPtr memory;  // owner of the values
  // CPU storage over the same bytes, made when an op first needs it; it owns nothing.
  std::atomic<c10::StorageImpl*> host_alias{nullptr};
};

c10::DeviceAllocator& allocator();

// The context of a neuron storage; throws for a storage of anything else.
StorageContext& context_of(const c10::StorageImpl& storage);

// Id of a neuron storage, 0 for a storage of another device.
uint64_t storage_id(const c10::StorageImpl& storage);

// Takes over host memory as device memory without copying it.
c10::DataPtr adopt(c10::DataPtr memory, size_t nbytes, c10::DeviceIndex device);

// A CPU storage over the bytes of a neuron storage; the same one each time.
c10::intrusive_ptr<c10::StorageImpl> host_alias(const c10::StorageImpl& storage);

}  // namespace trnscope
