#pragma once

#include <chrono>
#include <cstdint>

namespace espalier::controller {

// What is kept of what has no end of its own.
struct StoreLimits {
  // Of the audit log: entries of at most this age, but the latest 10,000 whatever the clock says;
  // and the flows that actions moved, or entries, at most this many in all.
  std::chrono::hours audit_age = std::chrono::hours(24 * 400);
  std::int64_t audit_kept = 10'000;
  std::int64_t audit_moves = 1'000'000;
  // Of the sets of intents, to which an operator can roll back: the latest.
  std::int64_t revisions = 10'000;
};

}  // namespace espalier::controller
