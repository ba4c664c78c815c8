#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/time/event_loop.h"

namespace espalier::controller {

// How long the reports of one agent wait before they are handled, by the agent's own clock.
//
// A report has the time of its edges as ages. If it waits, in a socket or behind other reports, its
// edges seem to lie later than they did, by up to hundreds of milliseconds on a busy machine. The
// agent's clock has another origin and another speed than the controller's. But the report that
// has waited least lately shows their difference, and any other has waited for so much longer.
//
// Bounds: what an agent claims can move the times of its edges by at most kMostLate, and FlowTable
// keeps them behind earlier ones. What could prove it wrong: while every report of an agent waits,
// the least wait counts as none. Thread safety: none. O(1).
class ReportClock {
 public:
  static constexpr Duration kMostLate = std::chrono::seconds(10);
  // The difference is forgotten after two of these, as clocks drift apart: by 3 ms at 100 ppm.
  static constexpr Duration kWindow = std::chrono::seconds(15);

  // The agent has connected again, perhaps with another clock.
  void Reset() { *this = {}; }
  // Returns how late a report is handled that was sent at this time by the agent's clock; zero if
  // that is not known (`sent_us` 0).
  Duration LatenessOf(std::uint64_t sent_us, TimePoint now) {
    if (sent_us == 0) return {};
    const Duration ahead =
        now.time_since_epoch() - std::chrono::microseconds(static_cast<std::int64_t>(sent_us));
    if (!has_any_ || now - window_began_ >= kWindow) {
      before_ = has_any_ ? least_ : ahead;
      least_ = ahead;
      window_began_ = now;
      has_any_ = true;
    }
    least_ = ahead < least_ ? ahead : least_;
    const Duration base = least_ < before_ ? least_ : before_;
    const Duration late = ahead - base;
    return late < kMostLate ? late : kMostLate;
  }

 private:
  bool has_any_ = false;
  Duration least_{};   // difference of the clocks, and the least wait of this window
  Duration before_{};  // the same of the window before
  TimePoint window_began_{};
};

}  // namespace espalier::controller
