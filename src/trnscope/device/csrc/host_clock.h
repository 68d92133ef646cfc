// Unix time for approximate clock readings: linear between two readings of both clocks.
#pragma once

#include <cstdint>

namespace trnscope {

class HostClock {
 public:
  HostClock();
  // Begins the next stretch of the map at the present; call before converting readings taken until now.
  void advance();
  int64_t unix_ns(uint64_t approximate) const {
    const auto ticks = static_cast<int64_t>(approximate - last_.approximate);
    return last_.unix_ns + static_cast<int64_t>((static_cast<__int128>(ticks) * rate_ + half) >> fraction_bits);
  }

 private:
  struct Knot {
    int64_t unix_ns;
    uint64_t approximate;
  };
  static Knot read();
  Knot first_, last_;
  // Nanoseconds per tick in fixed point: exact to a nanosecond over minutes, without a call for rounding.
  static constexpr int fraction_bits = 40;
  static constexpr int64_t half = int64_t{1} << (fraction_bits - 1);
  int64_t rate_ = int64_t{1} << fraction_bits;
};

}  // namespace trnscope
