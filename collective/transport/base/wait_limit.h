#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "collective/transport/base/transport.h"
#include "common/base/result.h"

namespace espalier::transport {

// The limit of a wait: a deadline, or an interruption by another thread.
struct WaitLimit {
  WaitLimit(Deadline until, const std::atomic<bool>* flag = nullptr)  // NOLINT: a deadline is one
      : deadline(until), interrupted(flag) {}

  bool IsInterrupted() const { return interrupted != nullptr && interrupted->load(); }

  Deadline deadline;
  const std::atomic<bool>* interrupted;
};

// Calls `wait` with short deadlines, so that an interruption is noticed soon.
// Errors: those of `wait`; kUnavailable when interrupted.
template <typename Wait>
Result<void> WaitInterruptibly(const WaitLimit& limit, const Wait& wait) {
  constexpr std::chrono::milliseconds kNap{50};
  if (limit.interrupted == nullptr) return wait(limit.deadline);
  while (!limit.IsInterrupted()) {
    const Deadline nap = std::min(limit.deadline, std::chrono::steady_clock::now() + kNap);
    auto waited = wait(nap);
    if (waited || nap == limit.deadline || std::chrono::steady_clock::now() < nap) return waited;
  }
  return Fail(ErrorCode::kUnavailable, "interrupted");
}

}  // namespace espalier::transport
