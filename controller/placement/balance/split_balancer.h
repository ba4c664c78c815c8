#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "controller/placement/failures/local_reroutes.h"
#include "controller/placement/loads/load_summary.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Divides flows with several paths again where equal parts put more on some links than unequal ones
// would. That may be where the fabric is damaged, that is, a link between switches is down, drained
// or slow, or has another rate than one of the same tier; where hosts have moved flows by
// themselves (LocalReroutes); and where links carry background traffic. Flows that send by weights
// get other shares on the paths that they have, if that lowers the maximum load by a fiftieth
// (BalanceShares). No path and no port changes, and flows with one path stay as they are. When none
// of these reasons is left, these flows get equal parts again.
//
// A link that hosts have left may be dead, and looks idle: flows that still have a path over one
// keep their parts, so that none puts more on it.
//
// Hysteresis: the first change of the fabric after kCalm is followed at once, as flows suffer now.
// Further ones wait until the fabric has not changed for a hold of kSettle, which doubles with each
// change within kCalm of the one before, up to kLongestHold; changes less than kSettle apart count
// as one. The first local reroute after kCalm is followed after kGatheringMoves, as those of other
// flows come with it, and further ones after a hold that grows in the same way. Arrivals, moves,
// and other background lead to another division later, after kGathering, in which the other flows
// of a job start, too; but kInterval after the last look at the flows, or the fabric's hold if that
// is longer.
//
// Thread safety: the controller's loop thread. The references must outlive it.
class SplitBalancer {
 public:
  static constexpr Duration kSettle = std::chrono::seconds(1);
  static constexpr Duration kGathering = std::chrono::milliseconds(250);
  static constexpr Duration kGatheringMoves = std::chrono::milliseconds(100);
  static constexpr Duration kInterval = std::chrono::seconds(5);
  static constexpr Duration kCalm = std::chrono::minutes(1);
  static constexpr Duration kLongestHold = std::chrono::minutes(5);

  SplitBalancer(const State& state, FlowDecisions& decisions, EventHistory& history,
                const ControllerOptions& options, const LocalReroutes& reroutes, Metrics& metrics);

  enum class Outcome {
    kNothing,
    kDivided,  // some flows have other shares
    kEqual,    // flows have equal parts again: links may now be above their even share
  };
  // To be called ten times a second. O(1) if nothing is due; a division is O(flows x hops) and at
  // most kMostSteps looks at subflows, about 20 ms.
  Outcome Tick(TimePoint now);

 private:
  static constexpr std::int64_t kMostSteps = 500'000;
  static constexpr double kWorth = 0.02;  // the relative gain that is worth a division

  // How often one kind of change has come lately.
  struct Pace {
    std::optional<TimePoint> last;
    Duration hold = kSettle;

    // Notes a change. Returns whether it is the first one after kCalm.
    bool Note(TimePoint now);
  };

  void FollowFabric(TimePoint now);
  void FollowReroutes(TimePoint now);
  bool IsEnabled() const;
  bool IsWhole() const;
  bool HasBackground() const;
  // Whether unequal parts may be better than equal ones.
  bool MayBeUneven() const;
  Outcome Divide(TimePoint now);
  // The flows whose parts must stay as they are, as in Elephants::is_rigid.
  std::vector<std::uint8_t> FindRigid(const Elephants& elephants, const Assignment& present) const;
  Outcome MakeEqual(TimePoint now);

  const State& state_;
  FlowDecisions& decisions_;
  EventHistory& history_;
  const ControllerOptions& options_;
  const LocalReroutes& reroutes_;
  const bool has_mixed_rates_;  // links of one tier differ in rate
  std::int64_t seen_version_;   // of the topology
  std::uint64_t seen_reroutes_ = 0;
  std::uint64_t seen_paths_ = 0;  // FlowPaths::path_changes of the last division
  bool is_damaged_ = false;
  bool has_divided_ = false;  // flows may have shares that this class gave them
  Pace fabric_;
  Pace moves_;                       // local reroutes
  std::optional<TimePoint> due_;     // when to look at the flows; none: nothing has changed
  std::optional<TimePoint> looked_;  // at the flows, last
  Counter& divisions_;
  Counter& flows_;
};

}  // namespace espalier::controller
