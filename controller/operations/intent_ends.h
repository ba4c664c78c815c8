#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "common/base/time/event_loop.h"
#include "common/base/time/wall_time.h"
#include "controller/intents/intent.h"

namespace espalier::controller {

// The ends of intents that have one, in the time of the loop. The remaining time is measured once,
// when an intent is first asked about, so that a jump of the wall clock ends it neither early nor
// late. A restart of the controller measures it again by the wall clock.
// Thread safety: the controller's loop thread.
class IntentEnds {
 public:
  bool HasEnded(const Intent& intent, TimePoint now, WallTime wall_now) {
    if (!intent.until) return false;
    const WallTime::duration longest =
        std::chrono::hours(24 * 36'525);  // a century fits a Duration
    const auto remaining =
        std::chrono::duration_cast<Duration>(std::min(*intent.until - wall_now, longest));
    const auto known = ends_.try_emplace({intent.since, *intent.until}, now + remaining).first;
    const bool has_ended = known->second <= now;
    if (ends_.size() > kMost) {
      std::erase_if(ends_, [&](const auto& end) { return end.second <= now; });
    }
    return has_ended;
  }

 private:
  static constexpr std::size_t kMost = 4'096;  // beyond this, ends in the past are forgotten

  std::map<std::pair<WallTime, WallTime>, TimePoint> ends_;  // by since and until
};

}  // namespace espalier::controller
