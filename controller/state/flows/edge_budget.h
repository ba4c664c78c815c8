#pragma once

#include <cstdint>

#include "common/base/time/event_loop.h"

namespace espalier::controller {

// Limits how often flows are believed to become busy and idle. Each change costs work, and agents
// report what programs claim.
//
// Windows last a second, or longer while nothing is reported, and then allow more in proportion. A
// flow or an agent that exceeds its limit stays over it until it has had a window with at most half
// of what is allowed. Complexity: O(1). Thread safety: none.
class EdgeBudget {
 public:
  // Edges a second. Agents report at most 46 of a flow in any second: EdgeFilter.
  static constexpr std::uint32_t kOfFlow = 64;
  // The limit of flows of an agent, each with as many edges as agents report.
  static constexpr std::uint32_t kOfAgent = 100'000;

  explicit EdgeBudget(std::uint32_t edges_per_second) : limit_(edges_per_second) {}

  // Takes edges that are claimed now. False: over the limit.
  bool Take(std::uint32_t edges, TimePoint now) {
    const double seconds = SecondsOf(now - start_);
    if (seconds < 1) {
      edges_ += edges;
      is_over_ = is_over_ || edges_ > limit_;
      return !is_over_;
    }
    const double allowed = seconds * limit_;
    is_over_ = static_cast<double>(edges_ + edges) > (is_over_ ? allowed / 2 : allowed);
    start_ = now;
    edges_ = 0;
    return !is_over_;
  }
  // Counts as over its limit from now on.
  void Exceed() { is_over_ = true; }
  bool is_over() const { return is_over_; }

 private:
  std::uint32_t limit_;
  bool is_over_ = false;
  std::uint64_t edges_ = 0;  // in the present window
  TimePoint start_{};
};

}  // namespace espalier::controller
