#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/wall_time.h"
#include "common/fabric/topology.h"
#include "controller/intents/intent.h"
#include "controller/intents/intent_changes.h"
#include "controller/placement/loads/load_summary.h"
#include "controller/placement/placement.h"

namespace espalier::controller {

// Who asks for an action, why, and how it is carried out.
struct OperatorRequest {
  std::string actor;
  std::string reason;
  std::optional<WallTime> until;  // when the intent ends by itself; none: as it is, or never
  bool never_ends = false;        // takes the end of an intent away
  bool force = false;             // confirmed, however many flows it moves
  bool dry_run = false;           // compute the outcome and change nothing
  // Recompute only: upper bound on the total in-flight bytes of the flows that it moves.
  std::int64_t max_moved_bytes = std::numeric_limits<std::int64_t>::max();
};

// What an operator's action did, or (dry run) would do.
struct ActionOutcome {
  std::int64_t version = 0;           // of the topology, after the action
  std::uint64_t revision = 0;         // of the intents, after the action
  std::vector<IntentChange> intents;  // that the action changed
  std::vector<FlowMove> moves;
  LoadSummary before;
  LoadSummary after;
  std::size_t forests = 0;  // forests that are being recomputed
  // Why the action requires confirmation (OperatorRequest::force): "this would move 120 flows, more
  // than ...". Only of dry runs; empty: it requires none.
  std::string question{};
};
using ActionDone = std::function<void(Result<ActionOutcome>)>;

// An action that has been applied. Its outcome is computed after the agents have acknowledged their
// pushes, because computing it takes longer than flows on a dead path may wait.
struct AppliedAction {
  ActionOutcome outcome;
  std::vector<Rerouted> rerouted;
  std::vector<std::pair<fabric::LinkId, fabric::LinkState>> changed;  // with their earlier states
};

// The parts of the controller that operators' actions change.
class ActionTarget {
 public:
  virtual ~ActionTarget() = default;
  // Computes what would follow if these were the intents, and changes nothing.
  virtual ActionOutcome Try(const Intents& intents) = 0;
  // Makes these the intents and applies at once all that follows from them.
  virtual AppliedAction Apply(const Intents& intents) = 0;
  // Assigns all flows from scratch; a dry run computes the outcome and changes nothing.
  virtual ActionOutcome Reassign(const OperatorRequest& request) = 0;
  // Decides and pushes what is pending without delay: flows on a dead path wait for it.
  virtual void Turn() = 0;
  // Completes the outcome that Apply left open: the loads before, the moves by flow name, and the
  // loads after.
  virtual void ComputeOutcome(AppliedAction& applied) = 0;
};

}  // namespace espalier::controller
