#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/result.h"
#include "controller/paths/path_learner.h"
#include "controller/planning/job_learning.h"
#include "controller/planning/precomputed_start.h"
#include "controller/prediction/cycle_learner.h"
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
// JobLearning learns a job's starts. While some edges are late, it lags behind by as much; plans
// and paths do not wait.
//
// Bounds: those of JobLearning, precomputed starts per job, flows per precomputed start. Reports of
// a host affect only the predictions of the jobs that it names. Thread safety: the controller's
// loop thread. The references must outlive it.
class StartPredictor {
 public:
  StartPredictor(State& state, PathLearner& learner, const ControllerOptions& options,
                 Metrics& metrics);

  // Takes flows that were just opened and admitted, and those that were found open after a restart:
  // from then on the predictor knows which member of its job each of them is.
  void HandleOpened(std::span<const FlowSlot> slots) { learning_.HandleOpened(slots); }
  // The flow has something to send, for the first time or again. Its agent may have noticed before.
  void HandleBusy(FlowSlot slot, TimePoint at) { learning_.HandleBusy(slot, at); }
  // These flows have become busy or idle, one after the other, and their agent reports it now.
  // `learns`: else only what becomes idle counts.
  void HandleEdges(std::span<const MessageChange> edges, bool learns, TimePoint now) {
    learning_.HandleEdges(edges, learns, now);
  }
  // The ports of these flows, which have become busy, were not right before their first byte.
  void HandleUnready(std::span<const FlowSlot> slots) { learning_.HandleUnready(slots); }
  using Schedule = JobLearning::Schedule;
  // Takes a declared schedule, so that nothing must be learned. Returns how many flows it added:
  // flows under one switch need no plan, and flows declared before stay as they are. Errors:
  // kInvalidArgument (an end is not a NIC of the fabric), kResourceExhausted (no room for the job).
  Result<std::size_t> Declare(const Schedule& schedule) { return learning_.Declare(schedule); }
  // Must be called before the flow is closed.
  void HandleClosed(FlowSlot slot, TimePoint now) { learning_.HandleClosed(slot, now); }
  // Takes new reports of these flows, whose next review is due (FlowTable::Taken).
  void HandleProgress(std::span<const FlowSlot> due, TimePoint now);
  // The number will name another job. The job must not have an open flow.
  void ForgetJob(std::uint32_t job) { learning_.ForgetJob(job); }
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

  // Of jobs whose phases are learned and that are predictable, in the order of jobs' first starts.
  // O(flows).
  std::vector<JobLearning::JobPhases> Phases() const { return learning_.Phases(); }
  // Identifies the flows in them, as far as these are open: as long as it is the same, so are they.
  std::uint64_t DigestOfPhases() const { return learning_.DigestOfPhases(); }

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
  std::optional<EndEstimator::Forecast> EndOf(FlowSlot slot) const {
    return learning_.ends().Of(slot);
  }

 private:
  using Key = MemberKey;
  using SetId = FlowSetId;

  void Refresh(LearnedJob& job);
  // Records an event if prediction has been switched on or off for the job.
  void RecordSwitch(LearnedJob& job, TimePoint now);
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
    LearnedJob* job = nullptr;
    std::size_t index = 0;  // in LearnedJob::upcoming
  };
  // The upcoming sets in the order in which to plan for them. Sets that are starting come first,
  // the one planned least recently before others, because each start makes the plans of all others
  // outdated. Then come the others by time, and sets without a known time by job.
  std::vector<Wanted> WantedPlans();
  PrecomputedStart Make(LearnedJob& job, SetId set, const Remainder& remainder, bool assumes_ends);
  // Whether the set's flows are parked, so that they have their paths already when they start.
  // Looks at some of them, as they do the same.
  bool IsParked(const LearnedJob& job, SetId set) const;
  bool PlanFor(LearnedJob& job, const CycleLearner::Next& next);
  void RequestPorts(LearnedJob& job, PrecomputedStart& plan);
  // The flow's share of the most loaded link of each path: a lower bound of its water-filling rate.
  double PlannedRate(const Flow& flow);

  State& state_;
  PathLearner& learner_;
  const ControllerOptions& options_;
  JobLearning learning_;
  std::uint64_t made_ = 0;  // number of plans made
  PrecomputedStart* found_ = nullptr;
  Key found_key_;
  bool ports_changed_ = false;
  TimePoint now_{};

  Counter& plan_hits_;
  Counter& plan_stale_hits_;
  Counter& plan_misses_;
  Counter& plans_made_;
  Gauge& jobs_known_;
  Gauge& jobs_off_;
};

}  // namespace espalier::controller
