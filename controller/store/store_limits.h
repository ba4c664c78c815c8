#pragma once

#include <chrono>
#include <cstdint>

namespace espalier::controller {

// Limits on the data that would otherwise grow without end.
struct StoreLimits {
  // The audit log keeps entries up to this age, but always the latest `audit_kept`, whatever the
  // clock says; and at most `audit_moves` moved flows, and as many entries, in all.
  std::chrono::hours audit_age = std::chrono::hours(24 * 400);
  std::int64_t audit_kept = 10'000;
  std::int64_t audit_moves = 1'000'000;
  // How many of the latest revisions are kept, to which an operator can roll back.
  std::int64_t revisions = 10'000;
};

}  // namespace espalier::controller
