#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace espalier {

// The clock of event loops, real or virtual; only differences of its time points have a meaning.
struct MonotonicClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonotonicClock>;
  static constexpr bool is_steady = true;
};
using TimePoint = MonotonicClock::time_point;
using Duration = std::chrono::nanoseconds;

inline double SecondsOf(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
inline std::int64_t MicrosecondsOf(Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

// A pending call of EventLoop::After. Destroying it on the loop's thread cancels the call.
class Timer {
 public:
  virtual ~Timer() = default;
};
using TimerPtr = std::unique_ptr<Timer>;

// Runs callbacks on one thread, in real (common/loop) or virtual (common/sim) time. All callbacks
// run on the loop's thread, never inside Post or After.
//
// Thread safety: Post and Now may be called from any thread; After only on the loop's thread
// (or before it runs). Callbacks posted by one thread run in the order of posting.
class EventLoop {
 public:
  using Callback = std::function<void()>;

  virtual ~EventLoop() = default;
  virtual TimePoint Now() const = 0;
  virtual void Post(Callback callback) = 0;
  // Runs callback once, no earlier than `delay` from now, unless the Timer is destroyed first.
  // Timers that are due at the same time run in the order of their creation.
  [[nodiscard]] virtual TimerPtr After(Duration delay, Callback callback) = 0;
};

}  // namespace espalier
