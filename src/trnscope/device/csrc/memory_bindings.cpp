// Memory statistics and the memory event log for Python.
#include "allocator.h"
#include "bindings.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

namespace trnscope {
namespace {

namespace py = pybind11;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

constexpr std::pair<const char*, StatType> kPools[] = {
    {"all", StatType::AGGREGATE}, {"small_pool", StatType::SMALL_POOL}, {"large_pool", StatType::LARGE_POOL}};

// {name: {pool: {current, peak, allocated, freed}}}
py::dict as_dict(const StatArray& stats) {
  py::dict pools;
  for (const auto& [name, type] : kPools) {
    const auto& stat = stats[static_cast<size_t>(type)];
    py::dict entry;
    entry["current"] = stat.current;
    entry["peak"] = stat.peak;
    entry["allocated"] = stat.allocated;
    entry["freed"] = stat.freed;
    pools[name] = entry;
  }
  return pools;
}

py::dict stats_of(int device) {
  const auto stats = memory_stats(static_cast<c10::DeviceIndex>(device));
  py::dict result;
  result["allocation"] = as_dict(stats.torch.allocation);
  result["segment"] = as_dict(stats.torch.segment);
  result["active"] = as_dict(stats.torch.active);
  result["allocated_bytes"] = as_dict(stats.torch.allocated_bytes);
  result["reserved_bytes"] = as_dict(stats.torch.reserved_bytes);
  result["active_bytes"] = as_dict(stats.torch.active_bytes);
  result["requested_bytes"] = as_dict(stats.torch.requested_bytes);
  result["num_alloc_retries"] = stats.torch.num_alloc_retries;
  result["num_ooms"] = stats.torch.num_ooms;
  result["num_tensor_frees"] = stats.tensor_frees;
  result["allocation_requests"] = stats.allocation_requests;
  return result;
}

py::array_t<MemoryEvent> as_array(const std::vector<MemoryEvent>& events) {
  return py::array_t<MemoryEvent>(static_cast<py::ssize_t>(events.size()), events.data());
}

}  // namespace

void bind_memory(py::module_& module) {
  PYBIND11_NUMPY_DTYPE(MemoryEvent, time_ns, storage, address, bytes, block_bytes, allocated_bytes, reserved_bytes,
                       device, is_free);
  module.def("memory_stats", &stats_of);
  module.def("reset_peak_memory_stats",
             [](int device) { allocator().resetPeakStats(static_cast<c10::DeviceIndex>(device)); });
  module.def("reset_accumulated_memory_stats",
             [](int device) { allocator().resetAccumulatedStats(static_cast<c10::DeviceIndex>(device)); });
  module.def("empty_cache", [] { allocator().emptyCache(); });
  module.def("memory_info",
             [](int device) { return allocator().getMemoryInfo(static_cast<c10::DeviceIndex>(device)); });
  module.def("log_memory_events", &log_memory_events, py::arg("on"));
  module.def("drain_memory_events", [] { return as_array(drain_memory_events()); });
  module.def("live_storages", [] { return as_array(live_storages()); });
}

}  // namespace trnscope
