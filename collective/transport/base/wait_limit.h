#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "collective/transport/base/transport.h"
#include "common/base/result.h"

namespace espalier::transport {

// How long to wait: until the deadline, or until another thread says that it is enough.
struct WaitLimit {
  WaitLimit(Deadline until, const std::atomic<bool>* flag = nullptr)  // NOLINT: a deadline is one
      : deadline(until), interrupted(flag) {}

  bool IsInterrupted() const { return interrupted != nullptr && interrupted->load(); }

  Deadline deadline;
  const std::atomic<bool>* interrupted;
};

// Does what waits until a deadline, in naps short enough to see an interruption.
// Errors: what `wait` says, kUnavailable when interrupted.
template <typename Wait>
Result<void> WaitInterruptibly(const WaitLimit& patience, const Wait& wait) {
  constexpr std::chrono::milliseconds kNap{50};
  if (patience.interrupted == nullptr) return wait(patience.deadline);
  while (!patience.IsInterrupted()) {
    const Deadline nap = std::min(patience.deadline, std::chrono::steady_clock::now() + kNap);
    auto waited = wait(nap);
    if (waited || nap == patience.deadline || std::chrono::steady_clock::now() < nap) return waited;
  }
  return Fail(ErrorCode::kUnavailable, "interrupted");
}

}  // namespace espalier::transport
