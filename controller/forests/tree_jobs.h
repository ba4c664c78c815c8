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

// The jobs whose collectives run on forests (flow C): from ranks and present fabric to a verified
// program, a port for every edge that makes the fabric take the very path that the forest has for
// it (EdgePorts), and a plan for every rank, which the publisher brings to its agent.
//
// Forests are made aside (ControllerOptions::background) from copies; a result that is overtaken
// by a change of the fabric or the job is dropped. A job gets a new plan when a link of one of its
// paths fails or is drained, when a port turns out to lead elsewhere, when what comes back on a
// connection meets a dead link, and on the operator's word; the old one stays in force until the
// new one has all its ports. When a failure comes for which a forest was made before
// (BackupForestPlanner), that is taken at once; where other flows leave something else than was
// thought, one is made for that, too, and takes over if it is another.
//
// Thread safety: the controller's loop thread. The references must outlive it.
class TreeJobs {
 public:
  // request_turn: there is something to push or to probe.
  TreeJobs(State& state, PathLearner& learner, FailurePlans& failure_plans,
           const ControllerOptions& options, EventLoop& loop, std::function<void()> request_turn,
           Metrics& metrics);
  ~TreeJobs();

  // Whether it could be started now. Errors: those of ResolveRanks; kAlreadyExists (the very job
  // runs); kFailedPrecondition for a name that is taken, an agent that is absent or too old.
  Result<void> Check(const JobSpec& spec) const;
  // Makes its forest, and keeps it for Apply; `done` is called later. Errors: BuildJobForest's.
  void Prepare(const JobSpec& spec, std::function<void(Result<void>)> done);
  std::vector<std::uint16_t> ChooseListenPorts(const JobSpec& spec) const {
    return controller::ChooseListenPorts(state_.topology, jobs_, spec);
  }

  // These jobs there are to be: starts and ends what differs.
  void Apply(const IntentById& intents);
  // These links have changed their states, and flows have followed.
  void HandleLinkChange(std::span<const fabric::LinkId> changed);
  // The path map has learned something.
  void HandleFindings();
  // Makes all forests anew; how many. Jobs whose forest stays the same notice nothing.
  std::size_t ReplanAll();
  // Errors: kInvalidArgument where the rank is not that agent's.
  Result<void> HandleReport(AgentId agent, const wire::CollectiveReport& report);
  // To be called now and then: goes on making forests for failures, and lets ports of plans that
  // are no longer in force be chosen again.
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
  // Of a job that is about to start, on the version of the topology.
  struct Prepared {
    JobSpec spec;
    std::int64_t version = 0;
    std::shared_ptr<const JobForest> forest;
  };
  // What becomes of a job under whose plan something has failed.
  struct Repair {
    TreeJob* job = nullptr;
    std::shared_ptr<const JobForest> forest;
    bool is_exact = false;  // no search would find another
  };

  JobKey KeyOfJob(const std::string& name, const Intent& started) const;
  void Start(const std::string& name, const Intent& intent);
  ForestRequest MakeRequest(const JobSpec& spec, std::vector<fabric::NodeId> ranks,
                            const TreeJob* job) const;
  void Plan(TreeJob& job);
  void TakeForest(const std::string& name, const std::shared_ptr<std::atomic<bool>>& planning,
                  Result<JobForest> forest);
  void Begin(TreeJob& job, std::shared_ptr<const JobForest> forest, DecisionOrigin origin);
  // Puts the next plan in force once it has all ports.
  void ChoosePorts(TreeJob& job);
  void Activate(TreeJob& job);
  void Deactivate(TreeJob& job);
  // Other ports for the plan in force, which is good but for these.
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
