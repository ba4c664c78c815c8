#pragma once

#include <chrono>
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
#include "controller/planning/edge_order.h"
#include "controller/prediction/cycle_learner.h"
#include "controller/prediction/end_estimator.h"
#include "controller/prediction/start_assignment.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Predicts which flows each job will start next and precomputes their path assignments (Routing for
// Large ML Models, section 3.4.2). It learns the order in which a job starts its sets of flows
// (CycleLearner), keeps precomputed starts for the next sets, and hands out their paths on arrival.
//
// A precomputed start is what OnlineAssigner decides on top of the present paths, or, if flows are
// forecast to end before, on top of those that remain. It holds while the topology's version and
// the fingerprint of all paths are those for which it was made, apart from its own flows: then it
// equals an assignment on arrival. If something else has changed, a flow still takes its
// precomputed path if this puts no link above its even share, as no assignment could do better.
// Else it is assigned as usual. The start is then computed again, so a wrong prediction costs only
// background time.
//
// Ports of precomputed paths are requested from the path learner before the flows arrive.
//
// A job is learned from the times of its edges, in their order, whatever the order of the reports
// (EdgeOrder). While some are late, learning lags behind by as much; plans and paths do not wait.
//
// Bounds: jobs in all and by the host that named them first, members and precomputed starts per
// job, flows per precomputed start. If there is no room for a job, the one that started least
// recently among those without open flows is dropped; if all have open flows, the job is not
// learned. Reports of a host affect only the predictions of the jobs that it names.
// Thread safety: the controller's loop thread. The references must outlive it.
class StartPredictor {
 public:
  StartPredictor(State& state, PathLearner& learner, const ControllerOptions& options,
                 Metrics& metrics);

  // Takes flows that were just opened and admitted, and those that were found open after a restart:
  // from then on the predictor knows which member of its job each of them is.
  void HandleOpened(std::span<const FlowSlot> slots);
  // The flow has something to send, for the first time or again. Its agent may have noticed before.
  void HandleBusy(FlowSlot slot, TimePoint at);
  // These flows have become busy or idle, one after the other, and their agent reports it now.
  // `learns`: else only what becomes idle counts.
  void HandleEdges(std::span<const MessageChange> edges, bool learns, TimePoint now);
  // The ports of these flows, which have become busy, were not right before their first byte.
  void HandleUnready(std::span<const FlowSlot> slots);
  // Flows that a job will start together, from NIC to NIC, as its scheduler or profiler declares.
  struct Schedule {
    std::string job;
    std::vector<std::pair<fabric::NodeId, fabric::NodeId>> flows;
    std::uint8_t protocol = wire::kProtocolUdp;
    std::uint64_t bytes_each = 0;
    Duration period{};  // zero: not known
  };
  // Takes a declared schedule, so that nothing must be learned. Returns how many flows it added:
  // flows under one switch need no plan, and flows declared before stay as they are. Errors:
  // kInvalidArgument (an end is not a NIC of the fabric), kResourceExhausted (no room for the job).
  Result<std::size_t> Declare(const Schedule& schedule, TimePoint now);
  // Must be called before the flow is closed.
  void HandleClosed(FlowSlot slot, TimePoint now);
  // Takes new reports of these flows, whose next review is due (FlowTable::Taken).
  void HandleProgress(std::span<const FlowSlot> due, TimePoint now);
  // The number will name another job. The job must not have an open flow.
  void ForgetJob(std::uint32_t job);
  // The path map may have ports now for which precomputed starts wait.
  void HandleFindings() { ports_changed_ = true; }

  // The precomputed paths of all subflows of a new flow, and the subflows in progress that must
  // move first; none: assign it as usual. Valid until Confirm, which the caller calls when it has
  // taken them.
  struct Planned {
    std::span<const std::int32_t> paths;
    std::span<const OnlineAssigner::Move> moves;
    bool holds = false;  // false: outdated, to be taken only if links stay within their even shares
  };
  std::optional<Planned> Find(FlowSlot slot);
  void Confirm(const Planned& planned);
  // Counts a miss if the flow was predicted, as no precomputed path was usable for it.
  void CountMiss(FlowSlot slot);

  // Computes the most urgent missing start; O(its flows). False: none is missing.
  bool PlanNext(TimePoint now);
  // Updates what depends on time alone. To be called periodically.
  void Tick(TimePoint now);

  // The phases of a job: the open flows that are busy at the same time, as far as their agents
  // report edges. Only of jobs whose phases are learned and that are predictable. O(flows).
  struct Phase {
    std::vector<FlowSlot> flows;
    Duration duration{};  // usual
  };
  struct JobPhases {
    std::uint32_t job = 0;
    std::vector<Phase> phases;
  };
  std::vector<JobPhases> Phases() const;  // in the order of jobs' first starts
  // Identifies the flows in them, as far as these are open: as long as it is the same, so are they.
  std::uint64_t DigestOfPhases() const;

  // Views.
  struct JobView {
    std::string job;
    bool is_on = true;
    // |predicted - real| of the latest starts and ends of its sets, as parts of the period: what
    // half of them and nine of ten do not exceed. 0: none has been predicted yet.
    std::size_t predicted_starts = 0;
    double start_error_p50 = 0;
    double start_error_p90 = 0;
    std::size_t predicted_ends = 0;
    double end_error_p50 = 0;
    double end_error_p90 = 0;
    std::uint64_t bursts = 0;        // of flows whose agents report edges
    std::uint64_t bursts_ready = 0;  // whose ports were right before their first byte
    std::size_t sets = 0;
    std::size_t members = 0;
    std::optional<Duration> period;
    std::optional<TimePoint> next_start;
    Duration uncertainty{};
    double confidence = 0;
    std::size_t next_flows = 0;
    bool is_planned = false;  // a precomputed start holds for its next set
  };
  std::vector<JobView> Jobs() const;  // by name
  std::optional<EndEstimator::Forecast> EndOf(FlowSlot slot) const { return ends_.Of(slot); }

 private:
  using Key = CycleLearner::Key;
  using SetId = CycleLearner::SetId;
  // A flow's reports are reviewed at most this often.
  static constexpr Duration kMinLook = std::chrono::milliseconds(50);

  // What is known of a member of a set before it arrives.
  struct Template {
    fabric::PortKey port_key;
    fabric::NodeId source_leaf;
    fabric::NodeId destination_leaf;
    std::uint32_t subflows = 1;
    AgentId agent;
    bool is_open = false;
    FlowSlot slot{};  // if it is open
  };
  struct PrecomputedStart {
    SetId set;
    std::int64_t version = 0;       // of the topology
    std::uint64_t fingerprint = 0;  // of the paths for which it was made
    std::uint64_t changes = 0;      // FlowPaths::changes; compared only if it has moves
    bool assumes_ends = false;      // made for the paths that remain after forecast departures
    bool is_used_up = false;        // all its flows have arrived
    bool lacks_ports = true;
    std::uint64_t made = 0;         // serial number
    std::uint32_t port_rounds = 0;  // how often ports were requested
    std::unordered_map<Key, std::pair<std::uint32_t, std::uint32_t>>
        subflows;  // first index into decided.paths, and count
    StartAssignment decided;
  };
  struct Job {
    Job(std::uint32_t the_name, const CycleOptions& options) : name(the_name), learner(options) {}
    std::uint32_t name;
    std::size_t open_flows = 0;
    CycleLearner learner;
    EdgeOrder order;  // of the edges that the learner has not got yet
    std::uint64_t bursts = 0;
    std::uint64_t unready_bursts = 0;
    std::unordered_map<Key, Template> templates;
    // By hash of the pair: a bit for the ordinal of each open flow.
    std::unordered_map<std::uint64_t, std::uint64_t> ordinals;
    std::vector<CycleLearner::Next> upcoming;
    std::uint64_t seen_changes = 0;  // CycleLearner::changes to which `upcoming` refers
    bool was_on = true;
    std::vector<PrecomputedStart> precomputed;
  };
  // How an open flow was classified.
  struct Known {
    Job* job = nullptr;
    std::uint64_t pair = 0;     // hash of its ends
    std::uint32_t ordinal = 0;  // among open flows of the pair
    PhaseLearner::Number number = PhaseLearner::kNone;
    Key key;
    bool may_miss = false;  // no miss was counted since it became busy
    bool is_busy = false;
    std::uint64_t sent_bytes = 0;  // in all, until it became idle
  };

  // Begins to load what HandleBusy and HandleIdle read.
  void Prefetch(std::span<const MessageChange> edges) const;
  // As HandleBusy, of an edge that is reported now.
  void Begin(FlowSlot slot, TimePoint at, TimePoint now);
  // The flow has sent everything, as is reported now.
  void HandleIdle(FlowSlot slot, TimePoint at, TimePoint now);
  // Hands the edges to the job's learner that are due.
  void Learn(Job& job, TimePoint now);
  Job* FindJob(std::uint32_t name) const;
  bool MakeRoom(std::size_t host);
  // Null if there is no room.
  Job* AddJob(std::uint32_t name);
  void Identify(FlowSlot slot);
  void Refresh(Job& job);
  // Records an event if prediction has been switched on or off for the job.
  void RecordSwitch(Job& job, TimePoint now);
  bool Holds(const PrecomputedStart& plan) const;
  // The plan's paths for this flow; empty if the flow is not in it or a subflow has no path.
  static std::span<const std::int32_t> PathsIn(const PrecomputedStart& plan, Key key,
                                               std::size_t subflows);
  // The subflows that will have ended, and the fingerprint of the remaining paths.
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
  // The upcoming sets in the order in which to plan for them. Sets that are starting come first,
  // the one planned least recently before others, because each start makes the plans of all others
  // outdated. Then come the others by time, and sets without a known time by job.
  std::vector<Wanted> WantedPlans();
  PrecomputedStart Make(Job& job, SetId set, const Remainder& remainder, bool assumes_ends);
  // Whether the set's flows are parked, so that they have their paths already when they start.
  // Looks at some of them, as they do the same.
  bool IsParked(const Job& job, SetId set) const;
  bool PlanFor(Job& job, const CycleLearner::Next& next);
  void RequestPorts(Job& job, PrecomputedStart& plan);
  // The flow's share of the most loaded link of each path: a lower bound of its water-filling rate.
  double PlannedRate(const Flow& flow);

  State& state_;
  PathLearner& learner_;
  const ControllerOptions& options_;
  std::vector<std::unique_ptr<Job>> jobs_;  // in the order of their first start
  std::unordered_map<std::uint32_t, Job*> by_name_;
  std::vector<Known> known_;            // by slot
  std::uint64_t identity_changes_ = 0;  // times that flows have been identified, or closed
  EndEstimator ends_;
  std::uint64_t made_ = 0;  // number of plans made
  PrecomputedStart* found_ = nullptr;
  Key found_key_;
  bool ports_changed_ = false;
  TimePoint now_{};

  Counter& plan_hits_;
  Counter& plan_stale_hits_;
  Counter& plan_misses_;
  Counter& plans_made_;
  LatencyHistogram& start_error_;
  LatencyHistogram& end_error_;
  Gauge& jobs_known_;
  Gauge& jobs_off_;
};

}  // namespace espalier::controller
