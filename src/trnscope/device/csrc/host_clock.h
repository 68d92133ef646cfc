// Unix time for approximate clock readings: linear between two readings of both clocks.
#pragma once

#include <cstdint>

namespace trnscope {

class HostClock {
 public:
  HostClock();
  // Begins the next stretch of the map at the present; call before converting readings taken until now.
  void advance();
  int64_t unix_ns(uint64_t approximate) const;

 private:
  struct Knot {
    int64_t unix_ns;
    uint64_t approximate;
  };
  static Knot read();
  Knot first_, last_;
  double ns_per_tick_ = 1;
};

}  // namespace trnscope
