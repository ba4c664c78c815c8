#pragma once

#include <cstdint>
#include <map>

#include "common/base/event_loop.h"
#include "controller/paths/verification_schedule.h"

namespace espalier::controller {

// Subflows with a bad path, whose ports are probed before anything is concluded about links: if the
// switches have changed their hash, a port takes another path than the one that is known, and the
// links of the known path are innocent.
//
// A port that no probe answers is asked again, and believed after a while: switches need not answer
// probes. Memory: O(subflows with a bad path). Thread safety: none.
class SuspectPaths {
 public:
  static constexpr Duration kAskAgain = std::chrono::milliseconds(400);
  static constexpr Duration kPatience = std::chrono::seconds(2);

  enum class Verdict : std::uint8_t {
    kAsk,      // probe the port now
    kWait,     // its probe is under way
    kBelieve,  // the port takes its path, or there was no answer
  };
  // The subflow, which has this port, is bad now.
  Verdict Judge(std::uint64_t subflow, const UsedPort& port, TimePoint now);
  // A probe has shown that the port takes its path.
  void HandleAnswer(const UsedPort& port);
  // Forgets the subflows that were not judged since the last call.
  void EndRound();

 private:
  struct Suspect {
    UsedPort port;
    TimePoint since{};
    TimePoint asked{};
    bool is_confirmed = false;
    bool is_judged = false;  // in this round
  };
  std::map<std::uint64_t, Suspect> suspects_;
};

}  // namespace espalier::controller
