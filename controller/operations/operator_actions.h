#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "controller/forests/tree_jobs.h"
#include "controller/intents/job_spec.h"
#include "controller/links/link_states.h"
#include "controller/operations/intent_edits.h"
#include "controller/operations/operation_queue.h"
#include "controller/settings/settings.h"
#include "controller/state/state.h"
#include "controller/store/store.h"

namespace espalier::controller {

// What operators may ask for. An intent is durable before anything moves, each is in the audit log,
// and `done` (called inside the call only for dry runs and for what is refused unseen) comes after
// that. The loop goes on meanwhile; actions are done one after the other (OperationQueue).
//
// Errors of all: those of intent_edits.h, kResourceExhausted (too many wait), the store's.
// Thread safety: the controller's loop thread. The references must outlive it.
class OperatorActions {
 public:
  OperatorActions(const State& state, const LinkStates& link_states, const Settings& settings,
                  TreeJobs& jobs, OperationQueue& queue, Store& store)
      : state_(state),
        link_states_(link_states),
        settings_(settings),
        jobs_(jobs),
        queue_(queue),
        store_(store) {}

  void ChangeLink(const std::string& link, IntentAction action, const OperatorRequest& request,
                  ActionDone done);
  void ChangeNode(const std::string& node, IntentAction action, const OperatorRequest& request,
                  ActionDone done);
  // When all flows are assigned, this job is to be so many times as fast as one of weight 1, which
  // all jobs have without a word. They are assigned anew by it, as Recompute does. The job may be
  // one that is yet to come. `weight`: 1 to kMaxWeight.
  void ChangeWeight(const std::string& job, std::uint64_t weight, const OperatorRequest& request,
                    ActionDone done);
  // Holds instead of what the configuration says (controller/settings/policies.h); no value: the
  // configuration holds again. Moves no flow by itself.
  void ChangePolicy(const std::string& name, const std::optional<std::string>& value,
                    const OperatorRequest& request, ActionDone done);
  // Assigns all flows anew.
  void Recompute(const OperatorRequest& request, ActionDone done);
  // Back to the intents of an earlier revision (none: the one before the present), as a new one.
  void RollBack(std::optional<std::uint64_t> revision, const OperatorRequest& request,
                ActionDone done);
  // Starts a job whose collective runs on a forest, or ends it. A job that has no forest, or ranks
  // without an agent that can run it, is refused, and nothing is changed; else it is there from now
  // on, over restarts too. Its plan reaches the ranks later (TreeJobs has its state).
  // Errors also: TreeJobs::Check and Prepare.
  void StartJob(const JobSpec& spec, const OperatorRequest& request, ActionDone done);
  void StopJob(const std::string& name, const OperatorRequest& request, ActionDone done);
  // The latest `most` entries of the audit log after `since`, oldest first.
  void ReadAudit(std::uint64_t since, std::size_t most, Store::Done<std::vector<AuditEntry>> done);

 private:
  WallTime Now() const { return settings_.now().wall_clock(); }

  const State& state_;
  const LinkStates& link_states_;
  const Settings& settings_;
  TreeJobs& jobs_;
  OperationQueue& queue_;
  Store& store_;
};

}  // namespace espalier::controller
