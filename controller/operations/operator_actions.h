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
#include "controller/operations/topology_effects.h"
#include "controller/settings/settings.h"
#include "controller/state/state.h"
#include "controller/store/store.h"

namespace espalier::controller {

// The actions that operators can ask for. An intent is durable before anything moves, and each
// action is in the audit log before `done` is called. `done` is called inside the call only for dry
// runs and for requests that are refused at once. The loop goes on meanwhile; actions are carried
// out one after the other (OperationQueue).
//
// Errors of all: those of intent_edits.h, kResourceExhausted (too many actions wait), the store's.
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
  // Sets a job's bandwidth weight: recomputations aim to make it `weight` times as fast as a job of
  // weight 1, the default. Reassigns all flows, as Recompute does. The job need not exist yet.
  // `weight`: 1 to kMaxWeight.
  void ChangeWeight(const std::string& job, std::uint64_t weight, const OperatorRequest& request,
                    ActionDone done);
  // Overrides the configured value of a policy (controller/settings/policies.h); without a value
  // the configuration applies again. Moves no flow by itself.
  void ChangePolicy(const std::string& name, const std::optional<std::string>& value,
                    const OperatorRequest& request, ActionDone done);
  // Switches steering on or off for a scope (ChangeSteeringIntent). Flows that are no longer
  // steered return to plain ECMP; those that are steered again get paths at once.
  void ChangeSteering(std::vector<std::string> hosts, std::vector<std::string> jobs,
                      std::optional<std::uint64_t> percent, bool on, const OperatorRequest& request,
                      ActionDone done);
  // Adds a maintenance window (AddWindow), or removes one.
  void AddMaintenance(const std::string& kind, const std::string& id, WallTime from,
                      const OperatorRequest& request, ActionDone done);
  void CancelMaintenance(const std::string& window, const OperatorRequest& request,
                         ActionDone done);
  // Records that an operator takes another topology over, if nothing speaks against it
  // (CheckEffects) at the time when the action is carried out. Changes nothing else: the daemon
  // then starts again with that topology.
  void ApplyTopology(fabric::Topology after, const OperatorRequest& request, ActionDone done);
  // Removes the intents whose objects the topology does not have, if there are any.
  void ForgetUnknown();
  // Assigns all flows from scratch.
  void Recompute(const OperatorRequest& request, ActionDone done);
  // Returns to the intents of an earlier revision, as a new revision. None: the one before the
  // present one; refused with kFailedPrecondition after a rollback, which that would take back.
  void RollBack(std::optional<std::uint64_t> revision, const OperatorRequest& request,
                ActionDone done);
  // Starts or ends a job whose collective runs on a forest. A job without a forest, or with ranks
  // whose agent cannot run it, is refused, and nothing changes. A job that is accepted survives
  // restarts. Its job plan reaches the ranks later (TreeJobs has its state).
  // Errors also: TreeJobs::Check and Prepare.
  void StartJob(const JobSpec& spec, const OperatorRequest& request, ActionDone done);
  void StopJob(const std::string& name, const OperatorRequest& request, ActionDone done);
  // The latest `most` entries of the audit log after `since`, oldest first.
  void ReadAudit(std::uint64_t since, std::size_t most, Store::Done<std::vector<AuditEntry>> done);

 private:
  void RollBackTo(std::uint64_t revision, const OperatorRequest& request, ActionDone done);
  WallTime Now() const { return settings_.now().wall_clock(); }

  const State& state_;
  const LinkStates& link_states_;
  const Settings& settings_;
  TreeJobs& jobs_;
  OperationQueue& queue_;
  Store& store_;
};

}  // namespace espalier::controller
