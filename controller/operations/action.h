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
#include "common/base/wall_time.h"
#include "common/fabric/topology.h"
#include "controller/intents/intent.h"
#include "controller/placement/load_summary.h"
#include "controller/placement/placement.h"

namespace espalier::controller {

// On whose word, why and how something is done.
struct OperatorRequest {
  std::string actor;
  std::string reason;
  std::optional<WallTime> until;  // what is failed or drained is so until then
  bool dry_run = false;           // only tell
  // Of a recompute: how many bytes in flight it may move in all.
  std::int64_t max_moved_bytes = std::numeric_limits<std::int64_t>::max();
};

// What an operator's action did, or (dry run) would do.
struct ActionOutcome {
  std::int64_t version = 0;    // of the topology, afterwards
  std::uint64_t revision = 0;  // of the intents, afterwards
  std::vector<FlowMove> moves;
  LoadSummary before;
  LoadSummary after;        // of a dry run of a failure: as before
  std::size_t forests = 0;  // that are being made anew
};
using ActionDone = std::function<void(Result<ActionOutcome>)>;

// An action that has been applied. What it did is computed after the agents have acknowledged it,
// as that takes longer than they may wait.
struct AppliedAction {
  ActionOutcome outcome;
  std::vector<Rerouted> rerouted;
  std::vector<std::pair<fabric::LinkId, fabric::LinkState>> changed;  // as they were
};

// What operators' actions act on.
class ActionTarget {
 public:
  virtual ~ActionTarget() = default;
  // What would follow if these were the intents. Changes nothing.
  virtual ActionOutcome Try(const Intents& intents) = 0;
  // These are the intents from now on, with all that follows of them at once.
  virtual AppliedAction Apply(const Intents& intents) = 0;
  // Assigns all flows from scratch (a dry run: only tells).
  virtual ActionOutcome Reassign(const OperatorRequest& request) = 0;
  // Decides and pushes what is waiting, now: flows on a dead path wait for this.
  virtual void Turn() = 0;
  // Computes the outcome of an action as far as Apply left it open: the loads before, the moves by
  // name, the loads now.
  virtual void ComputeOutcome(AppliedAction& applied) = 0;
};

}  // namespace espalier::controller
