#include "allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <cstring>
#include <mutex>
#include <vector>

namespace trnscope {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;

constexpr auto kAggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

std::atomic<uint64_t> next_id{1};

void release_context(void* context) { delete static_cast<StorageContext*>(context); }

class NeuronAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    const auto device = current_device();
    auto context = std::make_unique<StorageContext>(next_id.fetch_add(1, std::memory_order_relaxed), device, nbytes);
    count(device, nbytes);
    void* data = nullptr;
    if (nbytes != 0) {
      data = c10::alloc_cpu(nbytes);
      context->memory = c10::DataPtr(data, data, &c10::free_cpu, c10::Device(c10::kCPU));
    }
    return seal(std::move(context), data);
  }

  c10::DataPtr adopt(c10::DataPtr memory, size_t nbytes, c10::DeviceIndex device) {
    auto context = std::make_unique<StorageContext>(next_id.fetch_add(1, std::memory_order_relaxed), device, nbytes);
    count(device, nbytes);
    void* data = memory.mutable_get();
    context->memory = std::move(memory);
    return seal(std::move(context), data);
  }

  void uncount(c10::DeviceIndex device, size_t nbytes) {
    std::lock_guard guard(mutex_);
    auto& stats = of(device);
    stats.allocated_bytes[kAggregate].decrease(nbytes);
    stats.active_bytes[kAggregate].decrease(nbytes);
    stats.reserved_bytes[kAggregate].decrease(nbytes);
  }

  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* dest, const void* src, std::size_t count) const override { std::memcpy(dest, src, count); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    std::lock_guard guard(mutex_);
    return of(checked_device(device));
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    std::lock_guard guard(mutex_);
    auto& stats = of(checked_device(device));
    for (auto* stat : {&stats.allocated_bytes, &stats.active_bytes, &stats.reserved_bytes})
      (*stat)[kAggregate].reset_accumulated();
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    std::lock_guard guard(mutex_);
    auto& stats = of(checked_device(device));
    for (auto* stat : {&stats.allocated_bytes, &stats.active_bytes, &stats.reserved_bytes})
      (*stat)[kAggregate].reset_peak();
  }

 private:
  static c10::DataPtr seal(std::unique_ptr<StorageContext> context, void* data) {
    const c10::Device device(kNeuron, context->device);
    return {data, context.release(), &release_context, device};
  }

  void count(c10::DeviceIndex device, size_t nbytes) {
    std::lock_guard guard(mutex_);
    auto& stats = of(device);
    stats.allocated_bytes[kAggregate].increase(nbytes);
    stats.active_bytes[kAggregate].increase(nbytes);
    stats.reserved_bytes[kAggregate].increase(nbytes);
  }

  DeviceStats& of(c10::DeviceIndex device) {
    if (stats_.size() <= static_cast<size_t>(device)) stats_.resize(device + 1);
    return stats_[device];
  }

  std::mutex mutex_;
  std::vector<DeviceStats> stats_;
};

NeuronAllocator instance;

REGISTER_ALLOCATOR(kNeuron, &instance)

}  // namespace

StorageContext::~StorageContext() {
  if (auto* alias = host_alias.load(std::memory_order_acquire))
    c10::intrusive_ptr<c10::StorageImpl>::reclaim(alias);
  instance.uncount(device, nbytes);
}

c10::DeviceAllocator& allocator() { return instance; }

StorageContext& context_of(const c10::StorageImpl& storage) {
  auto* context = storage.data_ptr().cast_context<StorageContext>(&release_context);
  TORCH_CHECK(context != nullptr, "expected a storage of device neuron, got one of ", storage.device());
  return *context;
}

uint64_t storage_id(const c10::StorageImpl& storage) {
  auto* context = storage.data_ptr().cast_context<StorageContext>(&release_context);
  return context == nullptr ? 0 : context->id;
}

c10::DataPtr adopt(c10::DataPtr memory, size_t nbytes, c10::DeviceIndex device) {
  return instance.adopt(std::move(memory), nbytes, device);
}

c10::intrusive_ptr<c10::StorageImpl> host_alias(const c10::StorageImpl& storage) {
  auto& context = context_of(storage);
  auto* known = context.host_alias.load(std::memory_order_acquire);
  if (known == nullptr) {
    auto fresh = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<int64_t>(storage.nbytes())),
        c10::DataPtr(context.memory.get(), c10::Device(c10::kCPU)), c10::GetCPUAllocator(), storage.resizable());
    // two threads may race for the first use of a shared parameter: the loser's copy dies here
    if (context.host_alias.compare_exchange_strong(known, fresh.get(), std::memory_order_acq_rel))
      known = fresh.release();
  }
  return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(known);
}

}  // namespace trnscope
