#pragma once

#include <chrono>
#include <cstddef>
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
#include "controller/planning/edge_order.h"
#include "controller/planning/precomputed_start.h"
#include "controller/prediction/cycle_learner.h"
#include "controller/prediction/end_estimator.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// A job of which starts are learned.
struct LearnedJob {
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

  LearnedJob(std::uint32_t the_name, const CycleOptions& options)
      : name(the_name), learner(options) {}

  std::uint32_t name;
  std::size_t open_flows = 0;
  CycleLearner learner;
  EdgeOrder order;  // of the edges that the learner has not got yet
  std::uint64_t bursts = 0;
  std::uint64_t unready_bursts = 0;
  std::unordered_map<MemberKey, Template> templates;
  // By hash of the pair: a bit for the ordinal of each open flow.
  std::unordered_map<std::uint64_t, std::uint64_t> ordinals;

  // StartPredictor's, which go with the job.
  std::vector<CycleLearner::Next> upcoming;
  std::uint64_t seen_changes = 0;  // CycleLearner::changes to which `upcoming` refers
  bool was_on = true;
  std::vector<PrecomputedStart> precomputed;
};

// Learns when the flows of each job start and end: which jobs there are, which of their flows is
// which, and when each becomes busy and idle.
//
// A job is learned from the times of its edges, in their order, whatever the order of the reports
// (EdgeOrder). While some are late, learning lags behind by as much.
//
// Bounds: 1,024 jobs, 64 of them by the host that named them first, and CycleOptions for each. If
// there is no room for a job, the one that started least recently among those without open flows is
// dropped; if all have open flows, the job is not learned.
// Thread safety: the controller's loop thread. The references must outlive it.
class JobLearning {
 public:
  // A flow's reports are reviewed at most this often.
  static constexpr Duration kMinLook = std::chrono::milliseconds(50);

  JobLearning(State& state, const ControllerOptions& options, Metrics& metrics);

  // As in StartPredictor.
  void HandleOpened(std::span<const FlowSlot> slots);
  void HandleBusy(FlowSlot slot, TimePoint at) { Begin(slot, at, at); }
  void HandleEdges(std::span<const MessageChange> edges, bool learns, TimePoint now);
  void HandleUnready(std::span<const FlowSlot> slots);
  void HandleClosed(FlowSlot slot, TimePoint now);
  void ForgetJob(std::uint32_t name);

  // Flows that a job will start together, from NIC to NIC, as its scheduler or profiler declares.
  struct Schedule {
    std::string job;
    std::vector<std::pair<fabric::NodeId, fabric::NodeId>> flows;
    std::uint8_t protocol = wire::kProtocolUdp;
    std::uint64_t bytes_each = 0;
    Duration period{};  // zero: not known
  };
  // As StartPredictor::Declare.
  Result<std::size_t> Declare(const Schedule& schedule);

  // Learns edges that are due, and forgets what it has not seen for long. To be called
  // periodically.
  void Tick(LearnedJob& job, TimePoint now);

  // In the order of their first start. A reference is valid until the job is forgotten.
  std::span<const std::unique_ptr<LearnedJob>> jobs() const { return jobs_; }

  // The job of an open flow, and its key there; none if the job is not learned.
  struct Place {
    LearnedJob* job = nullptr;
    MemberKey key;
  };
  std::optional<Place> PlaceOf(FlowSlot slot) const;
  // Whether the flow was predicted, and this was not asked since it became busy.
  bool TakeMiss(FlowSlot slot);

  EndEstimator& ends() { return ends_; }
  const EndEstimator& ends() const { return ends_; }

  // The phases of a job: the open flows that are busy at the same time, as far as their agents
  // report edges.
  struct Phase {
    std::vector<FlowSlot> flows;
    Duration duration{};  // usual
  };
  struct JobPhases {
    std::uint32_t job = 0;
    std::vector<Phase> phases;
  };
  // Of jobs whose phases are learned and that are predictable, in the order of jobs(). O(flows).
  std::vector<JobPhases> Phases() const;
  // Identifies the flows in them, as far as these are open: as long as it is the same, so are they.
  std::uint64_t DigestOfPhases() const;

 private:
  // How an open flow was classified.
  struct Known {
    LearnedJob* job = nullptr;
    std::uint64_t pair = 0;     // hash of its ends
    std::uint32_t ordinal = 0;  // among open flows of the pair
    PhaseLearner::Number number = PhaseLearner::kNone;
    MemberKey key;
    bool may_miss = false;  // no miss was counted since it became busy
    bool is_busy = false;
    std::uint64_t sent_bytes = 0;  // in all, until it became idle
  };

  // Begins to load what Begin and HandleIdle read.
  void Prefetch(std::span<const MessageChange> edges) const;
  // The flow has become busy, as is reported now.
  void Begin(FlowSlot slot, TimePoint at, TimePoint now);
  // The flow has sent everything, as is reported now.
  void HandleIdle(FlowSlot slot, TimePoint at, TimePoint now);
  // Hands the edges to the job's learner that are due.
  void Learn(LearnedJob& job, TimePoint now);
  LearnedJob* FindJob(std::uint32_t name) const;
  bool MakeRoom(std::size_t host);
  // Null if there is no room.
  LearnedJob* AddJob(std::uint32_t name);
  void Identify(FlowSlot slot);

  State& state_;
  const ControllerOptions& options_;
  std::vector<std::unique_ptr<LearnedJob>> jobs_;
  std::unordered_map<std::uint32_t, LearnedJob*> by_name_;
  std::vector<Known> known_;            // by slot
  std::uint64_t identity_changes_ = 0;  // times that flows have been identified, or closed
  EndEstimator ends_;

  LatencyHistogram& start_error_;
  LatencyHistogram& end_error_;
};

}  // namespace espalier::controller
