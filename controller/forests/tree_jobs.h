#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "controller/forests/job_forest.h"
#include "controller/forests/job_spec.h"
#include "controller/forests/ready_forests.h"
#include "controller/paths/path_learner.h"
#include "controller/planning/failure_plans.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

//   kPlanning  its forest is being made
//   kLearning  it waits for ports of some edges; what it had before stays in force
//   kPushing   not all agents have acknowledged their ranks' plans
//   kReady     all have
//   kStuck     there is no forest for it now (`problem` says why); what it had stays in force
enum class JobStatus { kPlanning, kLearning, kPushing, kReady, kStuck };
std::string_view JobStatusName(JobStatus status);  // "PLANNING", ...

// A forest with a source port for every edge that crosses the fabric.
struct JobPlan {
  std::uint64_t version = 0;  // the same for all ranks; grows, over restarts too; 0: not in force
  std::shared_ptr<const JobForest> forest;
  std::vector<std::uint16_t> listens;  // by rank: the port that it is reached at
  std::vector<std::uint16_t> ports;    // of edge(i); 0: it needs none, or has none yet
  // By edge: ports that were given up as what comes back from them meets a dead link.
  std::vector<std::uint8_t> refused;
  bool replaces_dead = false;  // the plan before it has a path that is dead, there or back
  // In force while a link has died: ways back that were asked for since, by edge (empty: there is
  // nothing to ask), and whether one was found dead.
  std::vector<bool> asked_back;
  bool loses_answers = false;
  bool verbs = false;                         // over RDMA
  PlanOrigin origin = PlanOrigin::kReactive;  // kFailure: its forest was ready before the failure
  // Over RDMA: the ways back of edges whose connection has none, on the same path, for
  // acknowledgements: a port must be theirs, or a dead spine could take the edge down.
  std::vector<TreeEdge> answers;
  std::vector<FlowSlot> flows;  // those of its edges in the flow table, once in force

  // Of the forest's edges, then the answers; as many as there are ports.
  const TreeEdge& edge(std::size_t index) const {
    const std::size_t count = forest->edges.size();
    return index < count ? forest->edges[index] : answers[index - count];
  }
  // Where the messages of an edge go.
  std::uint16_t DestinationPort(const TreeEdge& edge) const {
    return verbs ? wire::kRoceV2Port : listens[static_cast<std::size_t>(edge.to)];
  }
};

struct TreeJob {
  JobKey key;  // by which its ranks know one another; no view or log shows it
  JobSpec spec;
  std::vector<std::uint16_t> listens;  // as stored
  std::vector<fabric::NodeId> ranks;
  std::optional<JobPlan> in_force;
  std::optional<JobPlan> next;            // in need of ports
  std::optional<TimePoint> broken_since;  // its plan has a link that is not usable
  std::string problem;                    // why there is no newer plan; "": there is nothing to do
  std::shared_ptr<std::atomic<bool>> planning;  // of the planning at hand: to cancel it

  // As ranks report.
  std::uint64_t collectives = 0;
  std::uint64_t last_bytes = 0;
  std::uint64_t last_duration_us = 0;
  std::uint64_t failures = 0;
  std::string last_failure;
};

// The jobs whose collectives run on forests (flow C): from ranks and present fabric to a verified
// program, a port for every edge that makes the fabric take the very path that the forest has for
// it, and a plan for every rank, which the publisher brings to its agent.
//
// Forests are made aside (ControllerOptions::background) from copies; a result that is overtaken
// by a change of the fabric or the job is dropped. The edges in force are flows of the table,
// pinned and weighted, so that other flows keep away from them. A job gets a new plan when a link
// of one of its paths fails or is drained, when a port turns out to lead elsewhere, and on the
// operator's word; the old one stays in force until the new one has all its ports. No plan takes a
// port again that another had within the last minutes, so that connections of both can exist.
//
// Forests for the failure of each link and switch that the plans in force go over are made ahead,
// one at a time, in a tenth of a processor (ReadyForests): when one fails, its forest is there, and
// only its ports are to be chosen. It is the very forest that would be made then, as long as flows
// go where their failure plans say; where other flows leave something else than was thought, one is
// made for that, too, and takes over if it is another.
//
// What comes back on a connection (TCP's acknowledgements) goes by the fabric's own choice: while
// links are dead, ports are taken only where a probe from the other end has found it to be alive.
// When a link dies, probes look after all ways back of the plans in force, and a plan that has lost
// one gets other ports.
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

  // By rank: ports to be reached at that no job has on the same host, for as long as this one runs:
  // its programs listen there from the first plan that they get to the last.
  std::vector<std::uint16_t> ChooseListenPorts(const JobSpec& spec) const;

  // These jobs there are to be: starts and ends what differs.
  void Apply(const IntentById& intents);
  // These links have changed their states, and flows have followed.
  void HandleLinkChange(std::span<const fabric::LinkId> changed);
  // To be called now and then: goes on making forests for failures.
  void PlanAhead();
  // The path map has learned something.
  void HandleFindings();
  // Makes all forests anew; how many. Jobs whose forest stays the same notice nothing.
  std::size_t PlanAllAnew();
  // Errors: kInvalidArgument where the rank is not that agent's.
  Result<void> HandleReport(AgentId agent, const wire::CollectiveReport& report);
  // Ports of plans that are no longer in force may be chosen again after a time.
  void ReleasePorts(TimePoint now);

  const std::map<std::string, TreeJob>& all() const { return jobs_; }
  const ReadyForests& ready() const { return ready_; }
  ReadyForests::Coverage ReadyFor(const TreeJob& job) const {
    return ready_.CoverageOf(job.spec.name, state_.topology.version());
  }
  JobStatus StatusOf(const TreeJob& job) const;
  // Ranks whose agents have not acknowledged what is in force.
  std::vector<std::uint32_t> UnacknowledgedRanks(const TreeJob& job) const;
  fabric::PortKey KeyOf(const JobPlan& plan, const TreeEdge& edge) const;

 private:
  struct OldPort {
    TimePoint free_at;
    fabric::PortKey key;
    std::uint16_t port;
  };

  JobKey KeyOfJob(const std::string& name, const Intent& started) const;
  AgentId AgentOfRank(const TreeJob& job, std::size_t rank) const;
  ForestRequest MakeRequest(const JobSpec& spec, std::vector<fabric::NodeId> ranks,
                            const TreeJob* job) const;
  // With `failed`: as if that had failed, and flows had followed their plans for that.
  std::vector<BitsPerSecond> WhatOthersLeave(
      const TreeJob* job, std::optional<FailurePlans::Element> failed = std::nullopt) const;
  void Plan(TreeJob& job);
  void TakeForest(const std::string& name, const std::shared_ptr<std::atomic<bool>>& planning,
                  Result<JobForest> forest);
  void Begin(TreeJob& job, std::shared_ptr<const JobForest> forest, PlanOrigin origin);
  std::vector<std::uint16_t> ListenPortsOf(const TreeJob& job) const;
  // Puts the next plan in force once it has all ports.
  void ChoosePorts(TreeJob& job);
  bool ChoosePort(JobPlan& plan, std::size_t edge);
  enum class WayBack { kUnknown, kAlive, kDead };
  WayBack WayBackOf(const TreeEdge& edge, const fabric::PortKey& key, std::uint16_t port);
  void PutInForce(TreeJob& job);
  void OpenFlows(TreeJob& job);
  void TakeOutOfForce(TreeJob& job);
  void DropPorts(const JobPlan& plan);
  void PushPlans(TreeJob& job);
  void End(TreeJob& job);
  const fabric::Path& PathOf(const TreeEdge::Crossing& crossing) const;
  JobPlan NewPlan(const TreeJob& job, std::shared_ptr<const JobForest> forest,
                  std::vector<std::uint16_t> listens, PlanOrigin origin) const;
  std::vector<TreeEdge> AnswersOf(const JobForest& forest) const;
  bool IsUsable(const JobPlan& plan) const;  // all its links are UP
  bool IsAlive(const JobPlan& plan) const;   // none is DOWN
  bool LeadsElsewhere(const JobPlan& plan) const;
  // Looks after the ways back of what is in force, as far as probes have answered; a plan that has
  // lost one is to get other ports. Whether it asks for probes or ports.
  bool LookBack(TreeJob& job);
  WayBack WayBackInForce(JobPlan& plan, std::size_t edge);
  void Run(std::function<void()> work, std::function<void()> done);

  // Failures (controller/forests/tree_failures.cc).
  std::vector<fabric::LinkId> LinksOf(FailurePlans::Element element) const;
  std::map<FailurePlans::Element, double> LoadsOf(const JobPlan& plan) const;  // in Gbit/s
  ForestRequest MakeRequestWithout(const TreeJob& job, FailurePlans::Element element) const;
  void MakeAhead();
  void TakeAhead(const ReadyForests::Target& target, ReadyForest ready, Result<JobForest> forest);
  void StopAhead();
  std::optional<FailurePlans::Element> FailedElement(std::span<const fabric::LinkId> changed) const;
  const ReadyForest* FindReady(const std::string& job, std::span<const fabric::LinkId> changed,
                               std::optional<FailurePlans::Element> failed) const;

  State& state_;
  PathLearner& learner_;
  FailurePlans& failure_plans_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  std::function<void()> request_turn_;
  std::map<std::string, TreeJob> jobs_;
  // Of a job that is about to start, on the version of the topology.
  struct Prepared {
    JobSpec spec;
    std::int64_t version = 0;
    std::shared_ptr<const JobForest> forest;
  };
  std::optional<Prepared> prepared_;
  std::deque<OldPort> old_ports_;  // by free_at
  std::uint64_t plans_made_ = 0;
  std::uint64_t flows_made_ = 0;
  ReadyForests ready_;
  std::shared_ptr<std::atomic<bool>>
      ahead_;  // of the forest that is being made ahead: to cancel it
  TimerPtr ahead_timer_;
  Duration ahead_pause_{};
  Counter& forests_;
  Counter& dropped_;
  LatencyHistogram& forest_seconds_;
  Counter& made_ahead_;
  Counter& ready_hits_;
  Counter& ready_misses_;
  LatencyHistogram& repair_seconds_;
};

}  // namespace espalier::controller
