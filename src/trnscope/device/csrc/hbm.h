// The shadow of a logical NeuronCore's HBM: where each storage would lie, and when there is no room.
//
// Memory is reserved in segments and handed out in blocks. Blocks below 16 MiB are rounded to a size class and share
// segments with blocks of their class, small (< 1 MiB) and large ones in segments of their own size; bigger blocks
// are not rounded to a class and have a segment each. Freed memory stays reserved until it is needed or given back.
// Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

namespace trnscope {

enum class Pool : uint8_t { small, large };

struct HbmBlock {
  uint64_t address = 0;
  uint64_t bytes = 0;  // after rounding; 0 for an empty storage, which has no address
  Pool pool() const;
};

class Hbm {
 public:
  explicit Hbm(uint64_t capacity) : capacity_(capacity) { gaps_.emplace(kFirstAddress, capacity); }

  // Nothing when there is no room, even after giving back every free segment; `retried` says whether that was tried.
  std::optional<HbmBlock> allocate(uint64_t bytes, bool& retried);
  void release(const HbmBlock& block);
  // Gives back the segments that hold no block.
  void empty_cache();

  uint64_t capacity() const { return capacity_; }
  uint64_t reserved(Pool pool) const { return reserved_[static_cast<int>(pool)]; }
  uint64_t segments(Pool pool) const { return segments_[static_cast<int>(pool)]; }

  // What a request of this size takes.
  static uint64_t rounded(uint64_t bytes);

  static constexpr uint64_t kFirstAddress = 1ULL << 32;  // so that no address looks like a small number
  static constexpr uint64_t kSmallest = 256;
  static constexpr uint64_t kLargePool = 1ULL << 20;
  static constexpr uint64_t kNotRounded = 16ULL << 20;
  static constexpr uint64_t kSmallSegment = 2ULL << 20;
  static constexpr uint64_t kLargeSegment = 32ULL << 20;

 private:
  struct Segment {
    uint64_t bytes;
    uint64_t block_bytes;
    uint64_t used = 0;  // blocks handed out
  };

  std::optional<HbmBlock> take(uint64_t bytes);
  std::optional<uint64_t> reserve(uint64_t bytes, uint64_t block_bytes);
  void give_back(std::map<uint64_t, Segment>::iterator segment);
  std::map<uint64_t, Segment>::iterator segment_of(uint64_t address);

  uint64_t capacity_;
  std::map<uint64_t, uint64_t> gaps_;                                // address -> bytes that no segment holds
  std::map<uint64_t, Segment> by_address_;
  std::unordered_map<uint64_t, std::vector<uint64_t>> free_blocks_;  // class size -> addresses, last freed on top
  std::multimap<uint64_t, uint64_t> free_big_;                       // bytes -> address of an unused big segment
  uint64_t reserved_[2] = {0, 0};
  uint64_t segments_[2] = {0, 0};
};

}  // namespace trnscope
