#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/result.h"
#include "controller/paths/path_learner.h"
#include "controller/prediction/cycle_learner.h"
#include "controller/prediction/end_estimator.h"
#include "controller/prediction/start_assignment.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The controller's answer before the question (Routing for Large ML Models, section 3.4.2): learns
// what each job starts in turn, keeps a plan for its next sets of flows, and hands a plan's paths
// out when they start.
//
// A plan is what OnlineAssigner would decide, tried on what is live now (and, where flows of the
// fabric are forecast to end before, on what will be left). It holds while the topology's version
// and the fingerprint of all paths are those that it was made for, moved on by its own flows: then
// it is what an assignment on arrival would give. Where something else has changed since, a flow
// still takes its planned path if no link of it goes above its leaves' limits by that
// (OnlineAssigner), as no assignment could do better; else it is assigned as usual. The plan is
// then made anew. So a wrong prediction costs only the time in the background.
//
// Ports of planned paths are asked of the path learner ahead of the flows.
//
// Bounds: jobs, also by the host that named them first, members a job, sets a plan, plans a job.
// Where there is no room, that which no flow is open of and that has not started for longest makes
// some; else the job is not learned. What a host reports touches the predictions of the job that it
// names alone.
// Thread safety: the controller's loop thread. The references must outlive it.
class StartPredictor {
 public:
  StartPredictor(State& state, PathLearner& learner, const ControllerOptions& options,
                 Metrics& metrics);

  // These flows have just been opened by their hosts (not: found open after a restart) and
  // admitted.
  void HandleStarts(std::span<const FlowSlot> slots, TimePoint now);
  // Flows that a job will start together, from NIC to NIC: its scheduler or profiler says so.
  struct Schedule {
    std::string job;
    std::vector<std::pair<fabric::NodeId, fabric::NodeId>> flows;
    std::uint8_t protocol = wire::kProtocolUdp;
    std::uint64_t bytes_each = 0;
    Duration period{};  // zero: not known
  };
  // Nothing has to be learned of these. How many were taken: those under one switch need no plan,
  // those that were declared before stay as they were. Errors: kInvalidArgument (an end is no NIC
  // of the fabric), kResourceExhausted (no room for the job).
  Result<std::size_t> Declare(const Schedule& schedule, TimePoint now);
  // Before its flow is closed.
  void HandleEnd(FlowSlot slot, TimePoint now);
  // Of these flows, whose time to be looked at has come, there is a new report.
  void HandleProgress(std::span<const FlowSlot> due, TimePoint now);
  // The number stands for another job from now on; it has no open flow.
  void ForgetJob(std::uint32_t job);
  // A path may have become known for ports that plans wait for.
  void HandleFindings() { ports_changed_ = true; }

  // The paths of all ways of a new flow by a plan, and the live ways that move first; none: assign
  // it as usual. Valid until Confirm, which follows when state is so.
  struct Planned {
    std::span<const std::int32_t> paths;
    std::span<const OnlineAssigner::Move> moves;
    bool holds = false;  // else the paths are to be taken only within limits
  };
  std::optional<Planned> Find(FlowSlot slot);
  void Confirm(const Planned& planned);
  // No plan held for this flow: counted if it was expected.
  void CountMiss(FlowSlot slot);

  // Makes the plan that is wanted next, one at a time: O(its flows). False: none is wanted.
  bool PlanNext(TimePoint now);
  // Closes what time closes; now and then.
  void Tick(TimePoint now);

  // Views.
  struct JobView {
    std::string job;
    bool is_on = true;
    double hit_rate = 0;
    std::uint64_t hits = 0;    // starts that were expected
    std::uint64_t misses = 0;  // and that were not
    std::size_t sets = 0;
    std::size_t members = 0;
    std::optional<Duration> period;
    std::optional<TimePoint> next_start;
    Duration uncertainty{};
    double confidence = 0;
    std::size_t next_flows = 0;
    bool is_planned = false;  // a plan holds for its next set
  };
  std::vector<JobView> Jobs() const;  // by name
  std::optional<EndEstimator::Forecast> EndOf(FlowSlot slot) const { return ends_.Of(slot); }

 private:
  using Key = CycleLearner::Key;
  using SetId = CycleLearner::SetId;

  // What a member of a set is: enough to plan for it.
  struct Template {
    fabric::PortKey port_key;
    fabric::NodeId source_leaf;
    fabric::NodeId destination_leaf;
    std::uint32_t subflows = 1;
    AgentId agent;
    bool is_open = false;
  };
  struct Plan {
    SetId set;
    std::int64_t version = 0;       // of the topology
    std::uint64_t fingerprint = 0;  // of the paths on which it rests
    std::uint64_t changes = 0;      // FlowPaths::changes; counts where live ways move
    bool assumes_ends = false;
    bool is_used_up = false;  // all its flows have started
    bool lacks_ports = true;
    std::uint64_t made = 0;         // grows from plan to plan
    std::uint32_t port_rounds = 0;  // how often ports were asked for
    std::unordered_map<Key, std::pair<std::uint32_t, std::uint32_t>>
        subflows;  // in paths: first, count
    StartAssignment decided;
  };
  struct Job {
    Job(std::uint32_t the_name, const CycleOptions& options) : name(the_name), learner(options) {}
    std::uint32_t name;
    std::size_t open_flows = 0;
    CycleLearner learner;
    std::unordered_map<Key, Template> templates;
    // Of open flows of one pair, by its hash: a bit each.
    std::unordered_map<std::uint64_t, std::uint64_t> ordinals;
    std::vector<CycleLearner::Next> upcoming;
    std::uint64_t seen_changes = 0;  // of the learner, when upcoming was asked for
    bool was_on = true;
    std::vector<Plan> plans;
  };
  // What was made of an open flow.
  struct Known {
    Job* job = nullptr;
    std::uint64_t pair = 0;  // hash of its ends
    std::uint32_t ordinal = 0;
    Key key;
    bool is_expected = false;
  };

  Job* FindJob(std::uint32_t name) const;
  bool MakeRoom(std::size_t host);
  // None where there is no room.
  Job* AddJob(std::uint32_t name);
  void Learn(FlowSlot slot, TimePoint now);
  void Refresh(Job& job);
  void NoteSwitch(Job& job, TimePoint now);
  bool Holds(const Plan& plan) const;
  // The plan's paths for a flow that is in it; empty where it has none for all ways.
  static std::span<const std::int32_t> PathsIn(const Plan& plan, Key key, std::size_t subflows);
  // The ways that will have ended, and the fingerprint of what is left.
  struct Remainder {
    std::vector<SubflowId> ending;
    std::uint64_t fingerprint = 0;
  };
  Remainder RemainderAt(TimePoint until);
  struct Wanted {
    TimePoint due;
    std::uint64_t last_made = 0;
    Job* job = nullptr;
    std::size_t index = 0;  // in Job::upcoming
  };
  // What starts just now first (in turn, as each start puts the plans of all others behind), then
  // the soonest; of sets whose time is not known yet, the jobs in turn.
  std::vector<Wanted> WantedPlans();
  Plan Make(Job& job, SetId set, const Remainder& remainder, bool assumes_ends);
  bool PlanFor(Job& job, const CycleLearner::Next& next);
  void AskForPorts(Job& job, Plan& plan);
  // Its share of the most loaded link of its paths: what water-filling gives it at least.
  double PlannedRate(const Flow& flow);

  State& state_;
  PathLearner& learner_;
  const ControllerOptions& options_;
  std::vector<std::unique_ptr<Job>> jobs_;           // by first start
  std::unordered_map<std::uint32_t, Job*> by_name_;  // of these
  std::vector<Known> known_;                         // by slot
  EndEstimator ends_;
  std::uint64_t made_ = 0;  // plans
  Plan* found_ = nullptr;
  Key found_key_;
  bool ports_changed_ = false;
  TimePoint now_{};

  Counter& expected_;
  Counter& unexpected_;
  Counter& plan_hits_;
  Counter& plan_fits_;
  Counter& plan_misses_;
  Counter& plans_made_;
  LatencyHistogram& start_error_;
  LatencyHistogram& end_error_;
  Gauge& jobs_known_;
  Gauge& jobs_off_;
};

}  // namespace espalier::controller
