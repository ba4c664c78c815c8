#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "controller/forests/backup_forests.h"
#include "controller/forests/job_forest.h"
#include "controller/forests/listen_ports.h"
#include "controller/forests/tree_job.h"
#include "controller/planning/failure_plans.h"
#include "controller/planning/paced_work.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Makes forests for the failure of each link and switch that the plans in force go over, before
// these fail, one at a time in a tenth of a processor: when one fails, its forest is there, and
// only its ports are to be chosen. It is the very forest that would be made then, as long as flows
// go where their failure plans say. Thread safety: the controller's loop thread. The references
// must outlive it.
class BackupForestPlanner {
 public:
  BackupForestPlanner(State& state, FailurePlans& failure_plans, const TreeJobTable& jobs,
                      const ControllerOptions& options, EventLoop& loop, Metrics& metrics);
  ~BackupForestPlanner() { Stop(); }

  // There may be something to make. To be called now and then.
  void Request();
  // What is being made is dropped, as it is overtaken, or something else comes first.
  void Stop();
  // A plan of the job is in force.
  void Follow(const std::string& job, const JobPlan& plan);
  void Forget(const std::string& job) { ready_.Forget(job); }

  // These links have just changed. The single element that has failed by that, if it is one.
  std::optional<LinkOrSwitch> FailedDomain(std::span<const fabric::LinkId> changed) const;
  // The forest that was made for that, if it is usable now.
  const BackupForest* Find(const std::string& job, std::span<const fabric::LinkId> changed,
                           std::optional<LinkOrSwitch> failed) const;

  const BackupForests& ready() const { return ready_; }

 private:
  ForestRequest MakeRequestWithout(const TreeJob& job, LinkOrSwitch domain) const;
  void MakeNext();
  void Take(const BackupForests::Target& target, BackupForest ready, Result<JobForest> forest);

  State& state_;
  FailurePlans& failure_plans_;
  const TreeJobTable& jobs_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  BackupForests ready_;
  std::shared_ptr<std::atomic<bool>> ahead_;  // of the forest that is being made: to cancel it
  PacedWork paced_;
  Counter& made_ahead_;
};

// Runs `work` where it keeps no loop waiting (ControllerOptions::background), then `done` on the
// loop.
void RunInBackground(const ControllerOptions& options, EventLoop& loop, std::function<void()> work,
                     std::function<void()> done);

}  // namespace espalier::controller
