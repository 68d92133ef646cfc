#include "allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/ApproximateClock.h>

#include <sys/mman.h>

#include <array>
#include <cstring>
#include <memory>
#include <mutex>

namespace trnscope {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr size_t kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

size_t place_of(Pool pool) {
  using c10::CachingAllocator::StatType;
  return static_cast<size_t>(pool == Pool::small ? StatType::SMALL_POOL : StatType::LARGE_POOL);
}

std::atomic<uint64_t> next_id{1};
std::atomic<bool> logging{false};

// Made when the log is first switched on, so that its two readings of both clocks enclose the events.
c10::ApproximateClockToUnixTimeConverter& event_clock() {
  static c10::ApproximateClockToUnixTimeConverter clock;
  return clock;
}

void release_context(void* context) { delete static_cast<StorageContext*>(context); }

// Addresses without memory behind them, for storages whose values are never computed: reading one ends the process.
class Unreadable {
 public:
  explicit Unreadable(size_t bytes)
      : bytes_(bytes), start_(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    TORCH_CHECK(start_ != MAP_FAILED, "the system refused ", bytes, " bytes of address space for shape-only storages");
  }
  ~Unreadable() { munmap(start_, bytes_); }
  Unreadable(const Unreadable&) = delete;
  Unreadable& operator=(const Unreadable&) = delete;
  void* at(uint64_t address) const { return static_cast<char*>(start_) + (address - Hbm::kFirstAddress); }

 private:
  size_t bytes_;
  void* start_;
};

// Memory of one logical NeuronCore.
class DeviceMemory {
 public:
  explicit DeviceMemory(c10::DeviceIndex device, uint64_t capacity) : device_(device), hbm_(capacity) {
    if (settings().shapes_only) unreadable_ = std::make_unique<Unreadable>(capacity);
  }

  void enter(StorageContext& context) {
    initialize();
    std::lock_guard guard(mutex_);
    bool retried = false;
    const auto block = hbm_.allocate(context.nbytes, retried);
    ++requests_;
    if (retried) {
      ++stats_.num_alloc_retries;
      note_segments();
    }
    if (!block) {
      ++stats_.num_ooms;
      out_of_memory(context.nbytes);
    }
    context.block = *block;
    count(context, true);
    context.next = live_;
    if (live_ != nullptr) live_->previous = &context;
    live_ = &context;
    if (C10_UNLIKELY(logging.load(std::memory_order_relaxed))) log_.push_back(event(context, false));
    if (C10_UNLIKELY(c10::memoryProfilingEnabled())) report(context, static_cast<int64_t>(context.block.bytes));
  }

  void leave(StorageContext& context) {
    // a forked child drops what it inherited; a thread that it lacks may have held the lock
    if (C10_UNLIKELY(is_in_bad_fork())) return;
    std::lock_guard guard(mutex_);
    hbm_.release(context.block);
    ++frees_;
    count(context, false);
    (context.previous != nullptr ? context.previous->next : live_) = context.next;
    if (context.next != nullptr) context.next->previous = context.previous;
    if (C10_UNLIKELY(logging.load(std::memory_order_relaxed))) log_.push_back(event(context, true));
    if (C10_UNLIKELY(c10::memoryProfilingEnabled())) report(context, -static_cast<int64_t>(context.block.bytes));
  }

  void empty_cache() {
    std::lock_guard guard(mutex_);
    hbm_.empty_cache();
    note_segments();
  }

  MemoryStats stats() {
    std::lock_guard guard(mutex_);
    MemoryStats result{stats_, frees_, requests_};
    // a block is free as soon as its tensor is: values exist when an op returns, no stream holds on to them
    result.torch.active = stats_.allocation;
    result.torch.active_bytes = stats_.allocated_bytes;
    return result;
  }

  template <class Reset>
  void reset(Reset reset) {
    std::lock_guard guard(mutex_);
    for (auto* stats : {&stats_.allocation, &stats_.segment, &stats_.allocated_bytes, &stats_.reserved_bytes,
                        &stats_.requested_bytes})
      for (auto& stat : *stats) reset(stat);
  }

  void reset_accumulated() {
    reset([](Stat& stat) { stat.reset_accumulated(); });
    std::lock_guard guard(mutex_);
    stats_.num_alloc_retries = stats_.num_ooms = frees_ = requests_ = 0;
  }

  std::pair<size_t, size_t> info() {
    std::lock_guard guard(mutex_);
    return {hbm_.capacity() - hbm_.reserved(Pool::small) - hbm_.reserved(Pool::large), hbm_.capacity()};
  }

  void* unreadable(const HbmBlock& block) const { return unreadable_->at(block.address); }

  void drain(std::vector<MemoryEvent>& into) {
    std::lock_guard guard(mutex_);
    into.insert(into.end(), log_.begin(), log_.end());
    log_.clear();
  }

  void list_live(std::vector<MemoryEvent>& into) {
    std::lock_guard guard(mutex_);
    for (const auto* context = live_; context != nullptr; context = context->next) {
      into.push_back(event(*context, false));
      into.back().time_ns = 0;
    }
  }

 private:
  void count(const StorageContext& context, bool added) {
    if (context.block.bytes == 0) return;
    const auto pool = place_of(context.block.pool());
    const auto change = [added](Stat& stat, uint64_t amount) {
      added ? stat.increase(amount) : stat.decrease(amount);
    };
    for (const auto place : {kAll, pool}) {
      change(stats_.allocation[place], 1);
      change(stats_.allocated_bytes[place], context.block.bytes);
      change(stats_.requested_bytes[place], context.nbytes);
    }
    if (added) note_segments();
  }

  void note_segments() {
    for (const auto pool : {Pool::small, Pool::large}) {
      const auto bytes = static_cast<int64_t>(hbm_.reserved(pool));
      auto& known = stats_.reserved_bytes[place_of(pool)];
      if (bytes == known.current) continue;
      const auto segments = static_cast<int64_t>(hbm_.segments(pool));
      move_to(known, stats_.reserved_bytes[kAll], bytes);
      move_to(stats_.segment[place_of(pool)], stats_.segment[kAll], segments);
    }
  }

  static void move_to(Stat& stat, Stat& sum, int64_t value) {
    const auto difference = value - stat.current;
    for (auto* each : {&stat, &sum})
      difference > 0 ? each->increase(difference) : each->decrease(-difference);
  }

  MemoryEvent event(const StorageContext& context, bool is_free) const {
    return {static_cast<int64_t>(c10::getApproximateTime()),
            context.id,
            context.block.address,
            static_cast<int64_t>(context.nbytes),
            static_cast<int64_t>(context.block.bytes),
            stats_.allocated_bytes[kAll].current,
            stats_.reserved_bytes[kAll].current,
            device_,
            is_free,
            {}};
  }

  void report(const StorageContext& context, int64_t bytes) const {
    c10::reportMemoryUsageToProfiler(context.memory.get(), bytes, stats_.allocated_bytes[kAll].current,
                                     stats_.reserved_bytes[kAll].current, c10::Device(kNeuron, device_));
  }

  [[noreturn]] void out_of_memory(size_t nbytes) const {
    const auto mib = [](int64_t bytes) { return c10::str(bytes >> 20, " MiB"); };
    TORCH_CHECK_WITH(OutOfMemoryError, false, "NRT allocation failed for size ", nbytes, " (OOM): neuron:",
                     static_cast<int>(device_), " models ", mib(static_cast<int64_t>(hbm_.capacity())),
                     " of HBM, of which ", mib(stats_.allocated_bytes[kAll].current), " are allocated and ",
                     mib(stats_.reserved_bytes[kAll].current),
                     " reserved. Use smaller batches, free tensors, or spread the model over more logical cores.");
  }

  const c10::DeviceIndex device_;
  std::mutex mutex_;
  Hbm hbm_;
  DeviceStats stats_;
  int64_t frees_ = 0, requests_ = 0;
  StorageContext* live_ = nullptr;
  std::vector<MemoryEvent> log_;
  std::unique_ptr<Unreadable> unreadable_;
};

// Devices by index, made when first used. They outlive every storage, so nothing frees them at exit.
DeviceMemory& memory_of(c10::DeviceIndex device) {
  static std::array<std::atomic<DeviceMemory*>, 128> devices{};
  static std::mutex mutex;
  auto& place = devices.at(static_cast<size_t>(device));
  auto* memory = place.load(std::memory_order_acquire);
  if (C10_LIKELY(memory != nullptr)) return *memory;
  std::lock_guard guard(mutex);
  if (place.load() == nullptr) place = std::make_unique<DeviceMemory>(device, settings().hbm_bytes).release();
  return *place.load();
}

c10::DataPtr seal(std::unique_ptr<StorageContext> context, void* data) {
  const c10::Device device(kNeuron, context->device);
  return {data, context.release(), &release_context, device};
}

class NeuronAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override { return allocate_on(current_device(), nbytes); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* dest, const void* src, std::size_t count) const override { std::memcpy(dest, src, count); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {
    for (c10::DeviceIndex device = 0; device < settings().device_count; ++device) memory_of(device).empty_cache();
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  DeviceStats getDeviceStats(c10::DeviceIndex device) override { return memory_of(checked_device(device)).stats().torch; }
  void resetAccumulatedStats(c10::DeviceIndex device) override { memory_of(checked_device(device)).reset_accumulated(); }
  void resetPeakStats(c10::DeviceIndex device) override {
    memory_of(checked_device(device)).reset([](Stat& stat) { stat.reset_peak(); });
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return memory_of(checked_device(device)).info();
  }
};

NeuronAllocator instance;

REGISTER_ALLOCATOR(kNeuron, &instance)

}  // namespace

StorageContext::StorageContext(c10::DeviceIndex device, size_t nbytes)
    : id(next_id.fetch_add(1, std::memory_order_relaxed)), device(device), nbytes(nbytes) {
  memory_of(device).enter(*this);
}

StorageContext::~StorageContext() {
  if (auto* alias = host_alias.load(std::memory_order_acquire))
    c10::intrusive_ptr<c10::StorageImpl>::reclaim(alias);
  memory_of(device).leave(*this);
}

c10::DeviceAllocator& allocator() { return instance; }

c10::DataPtr allocate_on(c10::DeviceIndex device, size_t nbytes) {
  auto context = std::make_unique<StorageContext>(device, nbytes);
  if (nbytes == 0) return seal(std::move(context), nullptr);
  if (C10_UNLIKELY(settings().shapes_only)) {
    auto* data = memory_of(device).unreadable(context->block);
    return seal(std::move(context), data);
  }
  auto* data = c10::alloc_cpu(nbytes);
  context->memory = c10::DataPtr(data, data, &c10::free_cpu, c10::Device(c10::kCPU));
  return seal(std::move(context), data);
}

c10::DataPtr adopt(c10::DataPtr memory, size_t nbytes, c10::DeviceIndex device) {
  auto context = std::make_unique<StorageContext>(device, nbytes);
  auto* data = memory.mutable_get();
  context->memory = std::move(memory);
  return seal(std::move(context), data);
}

namespace {

StorageContext* known_context(const c10::StorageImpl& storage) {
  return storage.data_ptr().cast_context<StorageContext>(&release_context);
}

// torch wraps memory that it was not given by the allocator (`from_blob`, pickling) in a storage of its own.
StorageContext& adopt_blob(c10::StorageImpl& storage) {
  TORCH_CHECK(storage.device_type() == kNeuron, "expected a storage of device neuron, got one of ", storage.device());
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (known_context(storage) == nullptr) {
    const auto device = storage.device().index();
    auto blob = storage.set_data_ptr(c10::DataPtr(nullptr, storage.device()));
    storage.set_data_ptr_noswap(adopt(std::move(blob), storage.nbytes(), device));
  }
  return *known_context(storage);
}

}  // namespace

StorageContext& context_of(const c10::StorageImpl& storage) {
  auto* context = known_context(storage);
  return C10_LIKELY(context != nullptr) ? *context : adopt_blob(const_cast<c10::StorageImpl&>(storage));
}

uint64_t storage_id(const c10::StorageImpl& storage) {
  const auto* context = known_context(storage);
  return context == nullptr ? 0 : context->id;
}

c10::intrusive_ptr<c10::StorageImpl> host_alias(const c10::StorageImpl& storage) {
  auto& context = context_of(storage);
  auto* known = context.host_alias.load(std::memory_order_acquire);
  if (known == nullptr) {
    // without values the alias is on the meta device, and memory is empty
    auto fresh = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<int64_t>(storage.nbytes())),
        c10::DataPtr(context.memory.get(), c10::Device(host_device_type())), c10::GetAllocator(host_device_type()),
        storage.resizable());
    // two threads may race for the first use of a shared parameter: the loser's copy dies here
    if (context.host_alias.compare_exchange_strong(known, fresh.get(), std::memory_order_acq_rel))
      known = fresh.release();
  }
  return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(known);
}

MemoryStats memory_stats(c10::DeviceIndex device) { return memory_of(checked_device(device)).stats(); }

void log_memory_events(bool on) {
  event_clock();
  logging.store(on, std::memory_order_relaxed);
}

std::vector<MemoryEvent> drain_memory_events() {
  std::vector<MemoryEvent> events;
  for (c10::DeviceIndex device = 0; device < settings().device_count; ++device) memory_of(device).drain(events);
  if (events.empty()) return events;
  const auto convert = event_clock().makeConverter();
  for (auto& event : events) event.time_ns = convert(static_cast<c10::approx_time_t>(event.time_ns));
  return events;
}

std::vector<MemoryEvent> live_storages() {
  std::vector<MemoryEvent> events;
  for (c10::DeviceIndex device = 0; device < settings().device_count; ++device) memory_of(device).list_live(events);
  return events;
}

}  // namespace trnscope
