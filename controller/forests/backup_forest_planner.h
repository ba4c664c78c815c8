#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "controller/forests/backup_forests.h"
#include "controller/forests/job_forest.h"
#include "controller/forests/listen_ports.h"
#include "controller/forests/tree_job.h"
#include "controller/planning/failure_plans.h"
#include "controller/planning/paced_work.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Precomputes a backup forest for the failure of each link and switch that job plans in force use,
// one at a time and in a tenth of a processor. When the failure comes, only the ports remain to be
// chosen. The forest is the one that would be computed then, as long as flows move as their failure
// plans say.
// Thread safety: the controller's loop thread. The references must outlive it.
class BackupForestPlanner {
 public:
  BackupForestPlanner(State& state, FailurePlans& failure_plans, const TreeJobTable& jobs,
                      const ControllerOptions& options, EventLoop& loop, Metrics& metrics);
  ~BackupForestPlanner() { Stop(); }

  // Continues with the next forest, if one is missing or outdated. To be called periodically.
  void Request();
  // Drops the forest that is being computed: it is outdated, or other work comes first.
  void Stop();
  // This plan of the job has come into force.
  void Follow(const std::string& job, const JobPlan& plan);
  void Forget(const std::string& job) { ready_.Forget(job); }

  // The single failure domain that explains the links that have just changed, if there is one.
  std::optional<LinkOrSwitch> FailedDomain(std::span<const fabric::LinkId> changed) const;
  // The backup forest for that failure, if it is usable now.
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
  std::shared_ptr<std::atomic<bool>> cancel_;  // cancels the forest that is being computed
  PacedWork paced_;
  Counter& precomputed_;
};

// Runs `work` off the loop's thread (ControllerOptions::background), then `done` on the loop.
void RunInBackground(const ControllerOptions& options, EventLoop& loop, std::function<void()> work,
                     std::function<void()> done);

}  // namespace espalier::controller
