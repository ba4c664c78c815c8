#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "common/base/time/token_bucket.h"
#include "controller/link_tests/link_doubts.h"
#include "controller/link_tests/trains/test_routes.h"
#include "controller/link_tests/trains/train_book.h"
#include "controller/link_tests/trains/train_planner.h"
#include "controller/link_tests/verdicts/dead_verdict.h"
#include "controller/link_tests/verdicts/link_verdict.h"
#include "controller/link_tests/verdicts/loss_evidence.h"
#include "controller/link_tests/verdicts/verdict_rounds.h"
#include "controller/paths/path_learner.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Tests all links between switches by probe trains, without end, and finds those that lose packets
// or are dead.
//
// TrainPlanner orders trains over all links, and more over those in doubt (LinkDoubts); TrainBook
// joins what their ends report; LinkVerdict and DeadVerdict conclude from the outcomes. A silent
// train, and a host that has seen a path dead, have each link of the path tested at once.
// A finding counts after probes have verified the paths of the ports that lost packets: if the
// switches have changed their hash, the links of the paths that were known are innocent.
//
// Thread safety: the controller's loop thread. The references must outlive it. Cost: 5 to 6 us of
// the loop for each train, from its order to its outcome, with 2,048 hosts
// (tests/bench/link_tests_bench).
class LinkTester {
 public:
  struct Callbacks {
    std::function<std::optional<AgentId>(fabric::NodeId nic)> find_prober;
    std::function<void(AgentId, wire::TrainOrder)> send;
    std::function<void()> request_turn;  // probes were requested
    // A link loses packets, or is dead. Called again while it stays so.
    std::function<void(const LinkFault&)> on_fault;
  };
  LinkTester(State& state, EventLoop& loop, PathLearner& learner, const LinkTestOptions& options,
             bool hashes_protocol, Callbacks callbacks, Metrics& metrics);

  void HandleReport(AgentId id, const wire::TrainReport& report);
  // A flow of this host repeated something, as the kernel or the device of the host has counted.
  void HandleRepeats(AgentId id, std::span<const fabric::DirectedLink> links);
  // This host found a path dead.
  void HandleDeadPath(AgentId id, std::span<const fabric::DirectedLink> links);
  // Probes have seen ports on other paths than known.
  void HandleFindings(const PathLearner::Findings& findings);
  // To be called every 100 ms.
  void Tick();

  // Links that are out of use. Those that may return are tested on. What trains show of the others,
  // such as links that an operator has failed, counts only from their return on.
  void SetOutOfUse(TrainPlanner::Links links);
  // Whether trains show that the link, which was taken out of use since then, is healthy: none of a
  // thousand or more packets was lost (kLossy), or some trains of several hosts passed in both
  // directions (kDead).
  bool IsHealthy(fabric::LinkId link, LinkFault::Kind kind, TimePoint since) const;
  // Whether trains can be sent over the link in both directions.
  bool CanTest(fabric::LinkId link) const { return planner_.CanTest(link); }

  // Why health is in doubt, as sentences without a full stop: links in focus for ten seconds,
  // repetitions that nothing explains, links of which one is faulty, NICs that lose packets.
  std::vector<std::string> Doubts() const;

 private:
  struct Counters {
    explicit Counters(Metrics& metrics);
    Counter& trains;
    Counter& outcomes;
    Counter& bad;
    Counter& forged;
    Counter& lost_reports;
    Counter& inspected;
    Gauge& in_focus;
  };

  // Has a few hosts test the link at once.
  void TestNow(fabric::DirectedLink link);
  void Take(const TrainOutcome& outcome);
  void JudgeDead(fabric::DirectedLink link);
  // Ends what is over, and chooses the links in focus.
  void UpdateDoubts();
  void Conclude(const LossFinding& finding);
  void NoteLossySwitch(fabric::NodeId node);
  // Whether probes have confirmed the paths of the ports on which the finding rests, or had time
  // to.
  bool IsConfirmed(const LossFinding& finding);
  void EndFocus();
  KnownFaults Known() const;
  std::size_t LiarsAt(fabric::DirectedLink link) const;
  std::vector<std::string> SuspectedBy(fabric::DirectedLink link) const;

  State& state_;
  EventLoop& loop_;
  PathLearner& learner_;
  const LinkTestOptions options_;
  const Callbacks callbacks_;
  TestRoutes routes_;
  TrainBook book_;
  TrainPlanner planner_;
  LossEvidence evidence_;
  LinkVerdict verdict_;
  VerdictRounds rounds_;
  DeadVerdict dead_;
  LinkDoubts doubts_;
  std::vector<std::size_t> hosts_;  // NICs under each switch, by node
  TrainPlanner::Links out_of_use_;
  std::map<fabric::LinkId, TimePoint> returned_;  // links that were out of use, and until when
  std::map<AgentId, TokenBucket> may_ask_;        // for urgent tests
  std::map<std::size_t, TimePoint> tested_now_;   // by DirectedLink::Index
  std::map<std::size_t, std::set<std::string>> accused_by_;  // hosts that found it dead
  std::map<std::size_t, TimePoint> confirming_;              // since when, by DirectedLink::Index
  std::map<fabric::NodeId, TimePoint> lossy_nodes_;          // NICs and leaves, and when found last
  std::map<std::string, TimePoint> undecided_;  // links of which one is faulty, and the same
  TimePoint next_period_{};
  TimePoint next_focus_{};
  Counters counters_;
};

}  // namespace espalier::controller
