#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "controller/forests/backup_forest_planner.h"
#include "controller/forests/edge_ports.h"
#include "controller/forests/job_forest.h"
#include "controller/forests/listen_ports.h"
#include "controller/forests/plan_delivery.h"
#include "controller/forests/tree_job.h"
#include "controller/intents/intent.h"
#include "controller/paths/path_learner.h"
#include "controller/planning/failure_plans.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The jobs whose collectives run on forests (flow C of docs/architecture.md). From a job's ranks
// and the present fabric it computes a verified program, chooses a port for every edge, which makes
// the fabric take exactly the path of the forest (EdgePorts), and gives the publisher a rank plan
// for every rank.
//
// Forests are computed in the background (ControllerOptions::background) from copies; a result that
// a change of the fabric or the job has outdated is dropped. A job gets a new plan when a link of
// one of its paths fails or is drained, when a port turns out to lead elsewhere, when a return path
// has a dead link, and when an operator asks for it. The old plan stays in force until the new one
// has all its ports. After a failure with a backup forest (BackupForestPlanner), the job takes it
// at once; if the residual capacity differs from what that forest assumes, another one is computed
// and takes over if it differs.
//
// Thread safety: the controller's loop thread. The references must outlive it.
class TreeJobs {
 public:
  // `request_turn` is called when a push or a probe is pending.
  TreeJobs(State& state, PathLearner& learner, FailurePlans& failure_plans,
           const ControllerOptions& options, EventLoop& loop, std::function<void()> request_turn,
           Metrics& metrics);
  ~TreeJobs();

  // Checks whether the job could start now. Errors: those of ResolveRanks; kAlreadyExists if
  // exactly this job runs; kFailedPrecondition for a name that is taken or an agent that is absent
  // or too old.
  Result<void> Check(const JobSpec& spec) const;
  // Computes the job's forest and keeps it for Apply, then calls `done`. Errors: BuildJobForest's.
  void Prepare(const JobSpec& spec, std::function<void(Result<void>)> done);
  std::vector<std::uint16_t> ChooseListenPorts(const JobSpec& spec) const {
    return controller::ChooseListenPorts(state_.topology, jobs_, spec);
  }

  // Makes these the jobs: starts those that are new and ends those that are gone.
  void Apply(const IntentById& intents);
  // How many forests would have to be replaced if the links had the states of `topology`.
  std::size_t CountBroken(const fabric::Topology& topology) const;
  // These links have changed their states, and flows have moved already.
  void HandleLinkChange(std::span<const fabric::LinkId> changed);
  // The path map has changed.
  void HandleFindings();
  // Recomputes all forests and returns how many. A forest that stays the same changes nothing.
  std::size_t ReplanAll();
  // Errors: kInvalidArgument where the rank is not that agent's.
  Result<void> HandleReport(AgentId agent, const wire::CollectiveReport& report);
  // Continues with backup forests, and frees the ports of earlier plans that have rested. To be
  // called periodically.
  void Tick(TimePoint now);

  const TreeJobTable& all() const { return jobs_; }
  const BackupForests& ready() const { return failures_.ready(); }
  BackupForests::Coverage ReadyFor(const TreeJob& job) const {
    return ready().CoverageOf(job.spec.name, state_.topology.version());
  }
  JobStatus StatusOf(const TreeJob& job) const;
  fabric::PortKey KeyOf(const JobPlan& plan, const TreeEdge& edge) const {
    return ports_.KeyOf(plan, edge);
  }

 private:
  // The forest of a job that is about to start, with the version of its topology.
  struct Prepared {
    JobSpec spec;
    std::int64_t version = 0;
    std::shared_ptr<const JobForest> forest;
  };
  // The repair of a job whose plan a failure has broken.
  struct Repair {
    TreeJob* job = nullptr;
    std::shared_ptr<const JobForest> forest;
    bool is_exact = false;  // a new computation would give the same forest
  };

  JobKey KeyOfJob(const std::string& name, const Intent& started) const;
  void Start(const std::string& name, const Intent& intent);
  ForestRequest MakeRequest(const JobSpec& spec, std::vector<fabric::NodeId> ranks,
                            const TreeJob* job) const;
  void Plan(TreeJob& job);
  void TakeForest(const std::string& name, const std::shared_ptr<std::atomic<bool>>& planning,
                  Result<JobForest> forest);
  void Begin(TreeJob& job, std::shared_ptr<const JobForest> forest, DecisionOrigin origin);
  // Puts the next plan in force if it has all its ports.
  void ChoosePorts(TreeJob& job);
  void Activate(TreeJob& job);
  void Deactivate(TreeJob& job);
  // Begins a next plan with the forest of the plan in force and other ports.
  void ReplacePorts(TreeJob& job, std::string_view why);
  void CheckReturnPaths(TreeJob& job, bool& has_asked);
  void End(TreeJob& job);

  State& state_;
  FailurePlans& failure_plans_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  std::function<void()> request_turn_;
  TreeJobTable jobs_;
  EdgePorts ports_;
  BackupForestPlanner failures_;
  std::optional<Prepared> prepared_;
  std::uint64_t plans_made_ = 0;
  Counter& forests_;
  Counter& dropped_;
  LatencyHistogram& forest_seconds_;
  Counter& ready_hits_;
  Counter& ready_misses_;
  LatencyHistogram& repair_seconds_;
};

}  // namespace espalier::controller
