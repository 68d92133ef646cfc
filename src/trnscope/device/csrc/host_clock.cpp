#include "host_clock.h"

#include <c10/util/ApproximateClock.h>

#include <cmath>

namespace trnscope {

HostClock::HostClock() : first_(read()), last_(first_) {}

HostClock::Knot HostClock::read() {
  constexpr int attempts = 11;
  Knot best{};
  uint64_t tightest = UINT64_MAX;
  for (int i = 0; i < attempts; ++i) {
    const uint64_t before = c10::getApproximateTime();
    const int64_t unix_ns = c10::getTime();
    const uint64_t after = c10::getApproximateTime();
    if (after - before < tightest) {
      tightest = after - before;
      best = {unix_ns, before + (after - before) / 2};
    }
  }
  return best;
}

void HostClock::advance() {
  const Knot now = read();
  // A stretch too short to measure its slope, or a system clock that was set back, prolongs the present one.
  constexpr int64_t shortest_ns = 1'000'000;
  if (now.unix_ns - last_.unix_ns < shortest_ns) return;
  first_ = last_;
  last_ = now;
  const double ns_per_tick = static_cast<double>(last_.unix_ns - first_.unix_ns) /
                             static_cast<double>(last_.approximate - first_.approximate);
  rate_ = std::llround(std::ldexp(ns_per_tick, fraction_bits));
}

}  // namespace trnscope
