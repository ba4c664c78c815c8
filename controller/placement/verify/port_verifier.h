#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "controller/paths/models/leaf_hosts.h"
#include "controller/paths/models/rehash_detector.h"
#include "controller/paths/path_learner.h"
#include "controller/paths/unreachable_pairs.h"
#include "controller/paths/verification_schedule.h"
#include "controller/placement/placement.h"
#include "controller/placement/verify/port_sweep.h"
#include "controller/placement/verify/spray_detector.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Verifies by probes that ports in use still take their paths: every port within
// options.verification, paced by VerificationSchedule, and after a change of links all ports that
// are not verified, in batches.
//
// If a port takes another path, all ports of its pair of leaves are verified at once. If that was
// verified before, the pair, the switch or the fabric has changed its hash (RehashDetector): what
// is known about its ports is then learned again; for one host's ports alone, if only that host of
// the leaf says so. Flows keep their ports until others are known to
// take their paths.
// If it takes another path again and again, a switch sprays (SprayDetector): the flows of that host
// are not steered, and its ports are not verified, but for a row of probes a minute.
// Thread safety: the controller's loop thread. The references must outlive it.
class PortVerifier {
 public:
  // How long verification waits for agents to acknowledge the pushes after a change of links.
  static constexpr Duration kAcknowledgementPatience = std::chrono::milliseconds(100);

  struct Callbacks {
    // Whether pushes to agents are not acknowledged yet; these have priority over probes.
    std::function<bool()> awaits_acknowledgements;
    std::function<void()> request_turn;  // called when probes may have to be ordered
  };
  PortVerifier(State& state, PathLearner& learner, Placement& placement,
               const ControllerOptions& options, EventLoop& loop, Callbacks callbacks,
               Metrics& metrics);

  // Starts verifying the ports of all flows and edges, after these links went down or came back,
  // and does so again when the switches' routing protocol has had time to follow: until then, a
  // probe may see the routes of before. The caller has told the learner.
  void HandleLinkChange(std::span<const fabric::LinkId> links);
  // Verifies all ports in use as fast as their budget allows, after links were drained or are used
  // again. Their switches hash over them as before, unless somebody drained them there, too.
  void HandleDrain();
  // Takes what probes have shown.
  void HandleFindings(const PathLearner::Findings& findings);
  // Verifies the ports whose turn it is. To be called ten times a second.
  void Tick();

  // Whether a switch sprays what the source of this key sends.
  bool IsSprayed(const fabric::PortKey& key) const;

 private:
  void StartVerifying();
  void VerifySome();
  // Learns and verifies again what the links that changed before have to do with.
  void HandleSettledRoutes();
  // Notes some of the ports in use.
  void NoteSome();
  void Note(const fabric::PortKey& key, std::uint16_t port);
  void LearnAgain(const RehashScope& scope);
  // Follows suspects of spraying, and does what their verdicts ask for.
  void FollowSpraying(const PathLearner::Findings& findings);
  void HandleSprayVerdict(const SprayDetector::Verdict& verdict);
  SprayDetector::Sender SenderOf(const fabric::PortKey& key) const;
  // Notes whether learning has shown that no port takes some paths of this key, and records an
  // event: once for each source leaf, until its hash changes. O(paths + known ports) until it has
  // shown so for the pair of leaves, then O(log pairs).
  void NoteUnreachable(const fabric::PortKey& key);
  void TellUnreachable(const fabric::PortKey& key, std::span<const fabric::PathIndex> unreachable);
  // Verifies some known ports of some pairs of leaves with such paths: routes may have come back.
  void RecheckUnreachable();

  State& state_;
  PathLearner& learner_;
  Placement& placement_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  Callbacks callbacks_;
  TimerPtr timer_;
  TimePoint links_changed_;
  std::set<fabric::LinkId> unsettled_;  // links that changed, until routes count as settled
  std::size_t settled_looks_ = 0;       // since the last change
  TimerPtr settling_;
  PortSweep unverified_;  // after a change of links
  PortSweep in_use_;
  VerificationSchedule schedule_;
  LeafHosts hosts_;
  RehashDetector detector_;
  SprayDetector spray_detector_;
  std::set<fabric::NodeId> told_unreachable_;  // source leaves
  UnreachablePairs unreachable_;
  Counter& verified_;
  Counter& pairs_learned_again_;
  Counter& switches_learned_again_;
  Counter& fabrics_learned_again_;
  Gauge& ports_;
  Gauge& oldest_seconds_;
};

}  // namespace espalier::controller
