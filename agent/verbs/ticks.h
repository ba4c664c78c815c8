#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace espalier::shim {

// Reads the processor's constant counter: 10 to 20 ns and never a system call, while the clocks of
// some virtual machines are system calls. The steady clock on other processors than x86.
inline std::uint64_t ReadTicks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// Converts ticks of the last seconds to the steady clock, by both clocks at recent moments. Its
// rate is that of the last full second, so it follows a virtual machine to another host.
// Thread safety: none.
class TickClock {
 public:
  using Clock = std::chrono::steady_clock;

  // Sets the present; to be called often.
  void Set() {
    constexpr std::uint64_t kClose = 10'000;
    std::uint64_t closest = std::numeric_limits<std::uint64_t>::max();
    Clock::time_point now;
    std::uint64_t ticks = 0;
    // The thread may lose its processor between the two clocks.
    for (int attempt = 0; attempt < 3 && closest > kClose; ++attempt) {
      const std::uint64_t before = ReadTicks();
      const Clock::time_point read = Clock::now();
      const std::uint64_t took = ReadTicks() - before;
      if (took >= closest) continue;
      closest = took;
      now = read;
      ticks = before + took / 2;
    }
    Set(now, ticks);
  }
  void Set(Clock::time_point now, std::uint64_t ticks) {
    now_ = now;
    now_ticks_ = ticks;
    if (base_ticks_ == 0 || ticks <= base_ticks_ || now <= base_) {
      base_ = now;
      base_ticks_ = ticks;
      is_first_second_ = true;
      return;
    }
    const bool is_second = now - base_ >= std::chrono::seconds(1);
    if (!is_second && !is_first_second_) return;
    rate_ = static_cast<double>((now - base_).count()) / static_cast<double>(ticks - base_ticks_);
    if (!is_second) return;
    base_ = now;
    base_ticks_ = ticks;
    is_first_second_ = false;
  }
  // Ticks after the present are the present.
  Clock::time_point TimeOf(std::uint64_t ticks) const {
    if (ticks >= now_ticks_) return now_;
    const double age = rate_ * static_cast<double>(now_ticks_ - ticks);
    return now_ - Clock::duration(static_cast<Clock::rep>(age));
  }
  // Endless until the rate is known.
  std::uint64_t TicksOf(Clock::duration span) const {
    if (rate_ <= 0) return std::numeric_limits<std::uint64_t>::max();
    return static_cast<std::uint64_t>(static_cast<double>(span.count()) / rate_);
  }

 private:
  Clock::time_point base_;
  std::uint64_t base_ticks_ = 0;
  Clock::time_point now_;
  std::uint64_t now_ticks_ = 0;
  bool is_first_second_ = true;
  double rate_ = 0;  // nanoseconds in a tick; 0: not known yet
};

}  // namespace espalier::shim
