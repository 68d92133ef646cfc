#include "hbm.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace trnscope {
namespace {

// Classes divide each power of two evenly, so that rounding wastes at most an eighth.
constexpr uint64_t kClassesPerDoubling = 8;

// A freed big segment serves a smaller request when it wastes at most this share of itself.
constexpr uint64_t kWasteDivisor = 8;

uint64_t round_up(uint64_t bytes, uint64_t step) { return (bytes + step - 1) / step * step; }

Pool pool_of(uint64_t block_bytes) { return block_bytes < Hbm::kLargePool ? Pool::small : Pool::large; }

}  // namespace

Pool HbmBlock::pool() const { return pool_of(bytes); }

uint64_t Hbm::rounded(uint64_t bytes) {
  if (bytes == 0) return 0;
  if (bytes >= kNotRounded) return round_up(bytes, kSmallest);  // alignment only
  const auto step = std::max(kSmallest, std::bit_floor(bytes) / kClassesPerDoubling);
  return round_up(bytes, step);
}

std::optional<HbmBlock> Hbm::allocate(uint64_t bytes, bool& retried) {
  retried = false;
  if (bytes == 0) return HbmBlock{};
  const auto wanted = rounded(bytes);
  if (auto block = take(wanted)) return block;
  retried = true;
  empty_cache();
  return take(wanted);
}

std::optional<HbmBlock> Hbm::take(uint64_t bytes) {
  if (bytes >= kNotRounded) {
    auto fit = free_big_.lower_bound(bytes);
    if (fit != free_big_.end() && fit->first - bytes <= fit->first / kWasteDivisor) {
      const HbmBlock block{fit->second, fit->first};
      free_big_.erase(fit);
      by_address_.at(block.address).used = 1;
      return block;
    }
    const auto address = reserve(bytes, bytes);
    if (!address) return std::nullopt;
    by_address_.at(*address).used = 1;
    return HbmBlock{*address, bytes};
  }
  auto& stack = free_blocks_[bytes];
  if (stack.empty()) {
    const auto segment_bytes = pool_of(bytes) == Pool::small ? kSmallSegment : kLargeSegment;
    const auto start = reserve(segment_bytes, bytes);
    if (!start) return std::nullopt;
    // the lowest address on top
    for (auto i = segment_bytes / bytes; i > 0; --i) stack.push_back(*start + (i - 1) * bytes);
  }
  const HbmBlock block{stack.back(), bytes};
  stack.pop_back();
  ++segment_of(block.address)->second.used;
  return block;
}

void Hbm::release(const HbmBlock& block) {
  if (block.bytes == 0) return;
  --segment_of(block.address)->second.used;
  if (block.bytes >= kNotRounded)
    free_big_.emplace(block.bytes, block.address);
  else
    free_blocks_[block.bytes].push_back(block.address);
}

void Hbm::empty_cache() {
  for (auto segment = by_address_.begin(); segment != by_address_.end();) {
    const auto current = segment++;
    if (current->second.used == 0) give_back(current);
  }
}

std::optional<uint64_t> Hbm::reserve(uint64_t bytes, uint64_t block_bytes) {
  auto gap = std::find_if(gaps_.begin(), gaps_.end(), [&](const auto& entry) { return entry.second >= bytes; });
  if (gap == gaps_.end()) return std::nullopt;
  const auto [address, length] = *gap;
  gaps_.erase(gap);
  if (length > bytes) gaps_.emplace(address + bytes, length - bytes);
  by_address_.emplace(address, Segment{bytes, block_bytes});
  reserved_[static_cast<int>(pool_of(block_bytes))] += bytes;
  ++segments_[static_cast<int>(pool_of(block_bytes))];
  return address;
}

void Hbm::give_back(std::map<uint64_t, Segment>::iterator segment) {
  const auto [start, held] = *segment;
  const auto end = start + held.bytes;
  if (held.block_bytes >= kNotRounded) {
    const auto [first, last] = free_big_.equal_range(held.bytes);
    const auto found = std::find_if(first, last, [&](const auto& entry) { return entry.second == start; });
    if (found != last) free_big_.erase(found);
  } else {
    std::erase_if(free_blocks_[held.block_bytes],
                  [&](uint64_t address) { return address >= start && address < end; });
  }
  reserved_[static_cast<int>(pool_of(held.block_bytes))] -= held.bytes;
  --segments_[static_cast<int>(pool_of(held.block_bytes))];
  by_address_.erase(segment);
  // join with the neighbouring gaps
  auto gap = gaps_.emplace(start, held.bytes).first;
  const auto next = std::next(gap);
  if (next != gaps_.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    gaps_.erase(next);
  }
  if (gap != gaps_.begin()) {
    const auto before = std::prev(gap);
    if (before->first + before->second == gap->first) {
      before->second += gap->second;
      gaps_.erase(gap);
    }
  }
}

std::map<uint64_t, Hbm::Segment>::iterator Hbm::segment_of(uint64_t address) {
  return std::prev(by_address_.upper_bound(address));
}

}  // namespace trnscope
