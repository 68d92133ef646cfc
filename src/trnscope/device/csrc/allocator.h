// Device memory: values live in host memory, addresses and limits are those of the modelled HBM.
#pragma once

#include "device.h"
#include "hbm.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <vector>

namespace trnscope {

// What hangs on the data pointer of every neuron storage.
struct StorageContext {
  StorageContext(c10::DeviceIndex device, size_t nbytes);
  ~StorageContext();
  StorageContext(const StorageContext&) = delete;
  StorageContext& operator=(const StorageContext&) = delete;

  const uint64_t id;  // unique in the process, never used again
  const c10::DeviceIndex device;
  const size_t nbytes;
  HbmBlock block;
  c10::DataPtr memory;  // owner of the values
  // Host storage over the same bytes, made when an op first needs it; it owns nothing.
  std::atomic<c10::StorageImpl*> host_alias{nullptr};
  // list of the device's live storages
  StorageContext* previous = nullptr;
  StorageContext* next = nullptr;
};

// One change of a device's memory; mirrors trnscope.schema.records.MEMORY_EVENT_DTYPE.
struct MemoryEvent {
  int64_t time_ns;  // Unix time when drained, approximate clock while in the log
  uint64_t storage, address;
  int64_t bytes, block_bytes;                 // requested, and after rounding
  int64_t allocated_bytes, reserved_bytes;    // of the device, after the event
  int16_t device;
  uint8_t is_free;
  uint8_t pad[5];
};
static_assert(sizeof(MemoryEvent) == 64);

struct MemoryStats {
  c10::CachingDeviceAllocator::DeviceStats torch;
  int64_t tensor_frees = 0, allocation_requests = 0;
};

c10::DeviceAllocator& allocator();

// The context of a neuron storage; throws for a storage of anything else.
StorageContext& context_of(const c10::StorageImpl& storage);

// Id of a neuron storage, 0 for a storage of another device.
uint64_t storage_id(const c10::StorageImpl& storage);

// Takes over host memory as device memory without copying it.
c10::DataPtr adopt(c10::DataPtr memory, size_t nbytes, c10::DeviceIndex device);

// Device memory of the given device, whichever is current.
c10::DataPtr allocate_on(c10::DeviceIndex device, size_t nbytes);

// A host storage (see host_device_type) over the bytes of a neuron storage; the same one each time.
c10::intrusive_ptr<c10::StorageImpl> host_alias(const c10::StorageImpl& storage);

MemoryStats memory_stats(c10::DeviceIndex device);

// The event log: kept only while switched on.
void log_memory_events(bool on);
std::vector<MemoryEvent> drain_memory_events();
// One allocation event per storage that is alive now, with no time.
std::vector<MemoryEvent> live_storages();

}  // namespace trnscope
