#include "controller/planning/phase_plan.h"

#include <algorithm>
#include <utility>

#include "common/base/random.h"
#include "controller/routing/phases/phase_assignment.h"

namespace espalier::controller {

// Problem: the same flows become busy and idle thousands of times an hour. Deciding each time costs
// time when they want to send, and different decisions each time change ports in every period.
// Idea: describe all phases of all jobs at once, with everything else as fixed loads of links, and
// assign one path for all phases. Digests of this description tell whether a new plan is due: that
// of the flows, links and loads counts at once, those of the jobs' phases only when they have
// lasted (PhaseLooks). AssignPhases runs on a copy of the fabric, off the loop's thread. What
// happens meanwhile counts afterwards: flows that close are left out, and a plan for other links
// than there are is dropped. Invariant: exactly the flows of `flows_` have paths in `planned_`, as
// many as subflows. Cost: O(flows + links) to describe; AssignPhases says what it costs.

struct PhasePlan::Input {
  std::vector<FlowSlot> slots;  // of the flows below; a flow of k subflows occurs k times
  std::vector<Duration> durations;
  std::vector<PhaseFlow> flows;
  std::vector<PhasedJob> jobs;
  std::vector<std::uint32_t> job_numbers;  // JobNames, of the same
  std::vector<std::int64_t> base_loads;    // of all flows that belong to no phase, by directed link
  std::uint64_t links_digest = 0;          // of the capacities of usable links between switches

  // Identifies all that a plan depends on, but the phases and the present paths of movable flows.
  std::uint64_t DigestOfFlows() const;
  // Identifies the phases of each job, in any order. Phases that are part of others do not count,
  // as in a plan.
  std::vector<PhaseLooks::Found> DigestsOfPhases() const;
};

namespace {

constexpr std::size_t kMostCompared = 4'000'000;  // some milliseconds

// Those that are not part of others, sorted. Compares phases until kMostCompared flows have been
// looked at, and leaves equal ones out in any case.
std::vector<std::vector<std::uint32_t>> WholePhases(
    std::vector<std::vector<std::uint32_t>> phases) {
  for (std::vector<std::uint32_t>& phase : phases) std::ranges::sort(phase);
  std::ranges::sort(phases, [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
  std::vector<std::vector<std::uint32_t>> whole;  // the largest first
  std::size_t compared = 0;
  for (std::vector<std::uint32_t>& phase : phases) {
    if (!whole.empty() && whole.back() == phase) continue;
    const bool is_part = std::ranges::any_of(whole, [&](const std::vector<std::uint32_t>& other) {
      compared += other.size();
      return compared <= kMostCompared && std::ranges::includes(other, phase);
    });
    if (!is_part) whole.push_back(std::move(phase));
  }
  return whole;
}

}  // namespace

std::uint64_t PhasePlan::Input::DigestOfFlows() const {
  std::uint64_t digest = links_digest;
  for (const std::int64_t load : base_loads) {
    digest = Mix64(digest ^ static_cast<std::uint64_t>(load));
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {  // a sum, as flows are in the order of phases
    const std::int32_t path = flows[i].movable ? kNoPath : flows[i].path;
    digest += Mix64(Mix64(slots[i].value()) ^ static_cast<std::uint32_t>(path));
  }
  return digest;
}

std::vector<PhaseLooks::Found> PhasePlan::Input::DigestsOfPhases() const {
  std::vector<PhaseLooks::Found> digests;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    std::uint64_t digest = 0;
    std::vector<std::uint64_t> phases;
    for (const std::vector<std::uint32_t>& phase : WholePhases(jobs[i].phases)) {
      std::uint64_t members = phase.size();
      for (const std::uint32_t index : phase) members += Mix64(slots[index].value());
      phases.push_back(members);
    }
    std::ranges::sort(phases);
    for (const std::uint64_t phase : phases) digest = Mix64(digest ^ phase);
    digests.push_back({job_numbers[i], digest});
  }
  return digests;
}

struct PhasePlan::Making {
  Input input;
  std::int64_t version = 0;  // of the topology
  TimePoint begun;
  PhaseAssignment assigned;
  bool is_done = false;          // set on the loop's thread
  std::vector<FlowSlot> closed;  // since it was begun
};

PhasePlan::PhasePlan(const State& state, const StartPredictor& predictor,
                     const ControllerOptions& options, Metrics& metrics)
    : state_(state),
      predictor_(predictor),
      options_(options),
      plans_(metrics.MakeCounter("espalier_phase_plans_computed_total",
                                 "Assignments computed for the repeating phases of jobs")),
      planned_flows_(
          metrics.MakeGauge("espalier_phase_plan_flows",
                            "Flows that have a planned path for the phases of their job")),
      max_load_gauge_(metrics.MakeGauge("espalier_phase_plan_max_link_load",
                                        "Load of the most loaded link, in flows, if the phases of "
                                        "all jobs meet in the worst way")) {}

PhasePlan::Input PhasePlan::Describe() const {
  Input input;
  constexpr std::uint32_t kNone = 0xFFFF'FFFF;
  std::vector<std::uint32_t> first(state_.flows.slot_count(), kNone);  // subflow of each flow
  const auto index_of = [&](FlowSlot slot) {
    std::uint32_t& at = first[slot.Index()];
    if (at != kNone) return at;
    at = static_cast<std::uint32_t>(input.flows.size());
    const Flow& flow = state_.flows.At(slot);
    for (const Subflow& subflow : flow.subflows) {
      const auto path = state_.flow_paths.PathOf(subflow);
      input.slots.push_back(slot);
      input.durations.emplace_back();
      input.flows.push_back({.source = *state_.view.LeafOf(flow.source_leaf),
                             .destination = *state_.view.LeafOf(flow.destination_leaf),
                             .share = ShareOf(flow, subflow),
                             .path = path ? path->value() : kNoPath,
                             .movable = state_.decisions.MayMove(slot, Mover::kPlan)});
    }
    return at;
  };
  for (const JobLearning::JobPhases& phases : predictor_.Phases()) {
    input.job_numbers.push_back(phases.job);
    PhasedJob& job = input.jobs.emplace_back();
    for (const JobLearning::Phase& phase : phases.phases) {
      std::vector<std::uint32_t>& indices = job.phases.emplace_back();
      for (const FlowSlot slot : phase.flows) {
        const std::uint32_t at = index_of(slot);
        for (std::uint32_t i = 0; i < state_.flows.At(slot).subflows.size(); ++i) {
          indices.push_back(at + i);
          input.durations[at + i] = std::max(input.durations[at + i], phase.duration);
        }
      }
    }
  }
  input.links_digest = DigestOfLinks();
  input.base_loads = state_.flow_paths.assigner().Loads();
  for (std::uint32_t index = 0; index < first.size(); ++index) {
    const std::uint32_t at = first[index];
    if (at == kNone) continue;
    const Flow& flow = state_.flows.At(FlowSlot(index));
    if (flow.is_parked) continue;
    for (std::size_t i = 0; i < flow.subflows.size(); ++i) {
      if (input.flows[at + i].path == kNoPath) continue;
      const SubflowId subflow = *flow.subflows[i].id;
      for (const std::uint32_t link : state_.flow_paths.assigner().LinksOf(subflow)) {
        input.base_loads[link] -= input.flows[at + i].share;
      }
    }
  }
  return input;
}

std::uint64_t PhasePlan::DigestOfLinks() const {
  std::uint64_t digest = 0;
  const auto capacities = state_.view.capacities();
  for (std::uint32_t link = 0; link < capacities.size(); ++link) {
    if (!state_.view.IsSwitchLink(link)) continue;
    digest = Mix64(digest ^ static_cast<std::uint64_t>(capacities[link]));
  }
  return digest;
}

bool PhasePlan::IsUpToDate(TimePoint now) {
  std::uint64_t digest = Mix64(predictor_.DigestOfPhases());
  digest = Mix64(digest ^ static_cast<std::uint64_t>(state_.topology.version()));
  digest = Mix64(digest ^ state_.flow_paths.path_changes());
  const bool is_known = std::exchange(quick_digest_, digest) == digest;
  return is_known && now - described_ < kMostInterval && is_current_;
}

bool PhasePlan::Refresh(TimePoint now) {
  const bool has_changed = TakeMade(now);
  const std::int64_t version = state_.topology.version();
  if (now < next_ && seen_version_ == version) return has_changed;
  next_ = now + kMinInterval;
  seen_version_ = version;
  if (IsUpToDate(now)) {
    looks_.LookAgain();
    return has_changed;
  }
  described_ = now;
  Input input = Describe();
  const bool has_nothing_to_plan = input.flows.empty() && flows_.empty();
  const std::uint64_t flows = input.DigestOfFlows();
  looks_.Look(input.DigestsOfPhases());
  const bool are_flows_new = flows != flows_digest_;
  const bool is_planned = !are_flows_new && looks_.ArePlanned();
  const bool is_due = are_flows_new || looks_.AreConfirmed();
  is_current_ = is_planned || has_nothing_to_plan;
  if (has_nothing_to_plan || is_planned || !is_due || making_) return has_changed;
  looks_.HandlePlan(are_flows_new);
  flows_digest_ = flows;
  BeginToMake(std::move(input), now);
  return TakeMade(now) || has_changed;
}

void PhasePlan::BeginToMake(Input input, TimePoint now) {
  if (!fabric_) fabric_ = std::make_shared<FabricCopy>(state_.topology);
  fabric_->TakeStates(state_.topology);
  making_ = std::make_shared<Making>(
      Making{.input = std::move(input), .version = state_.topology.version(), .begun = now});
  // Neither of these touches this object, which may be gone when they run.
  auto work = [making = making_, fabric = fabric_] {
    const Input& from = making->input;
    making->assigned = AssignPhases(fabric->View(), from.base_loads, from.flows, from.jobs, {});
  };
  auto done = [making = making_] { making->is_done = true; };
  if (options_.background) return options_.background(std::move(work), std::move(done));
  work();
  done();
}

bool PhasePlan::TakeMade(TimePoint now) {
  if (!making_ || !making_->is_done) return false;
  const std::shared_ptr<Making> made = std::exchange(making_, nullptr);
  next_ = now + std::max(kMinInterval, now - made->begun);  // other work waits for the same thread
  const bool are_links_as_then =
      made->version == state_.topology.version() || made->input.links_digest == DigestOfLinks();
  const bool is_to_be_made_anew = !are_links_as_then || !made->closed.empty();
  if (is_to_be_made_anew) {
    flows_digest_ = 0;
    is_current_ = false;
    next_ = now + kMinInterval;
  }
  has_dropped_ = !are_links_as_then && !has_dropped_ && !flows_.empty();
  if (has_dropped_) return false;
  std::ranges::sort(made->closed);
  PutInForce(*made);
  return true;
}

void PhasePlan::PutInForce(const Making& made) {
  for (const FlowSlot slot : flows_) planned_[slot.Index()] = {};
  flows_.clear();
  planned_.resize(std::max(planned_.size(), state_.flows.slot_count()));
  paths_ = made.assigned.paths;
  for (std::size_t i = 0; i < made.input.slots.size(); ++i) {
    Planned& planned = planned_[made.input.slots[i].Index()];
    if (planned.count++ > 0) continue;
    flows_.push_back(made.input.slots[i]);
    planned.first = static_cast<std::uint32_t>(i);
    planned.duration = made.input.durations[i];
  }
  std::sort(flows_.begin(), flows_.end());
  // A flow without a usable path is not planned; it is placed when it becomes busy.
  std::erase_if(flows_, [&](FlowSlot slot) {
    Planned& planned = planned_[slot.Index()];
    const auto paths = std::span(paths_).subspan(planned.first, planned.count);
    const bool has_paths = std::ranges::find(paths, kNoPath) == paths.end();
    if (has_paths && !std::ranges::binary_search(made.closed, slot)) return false;
    planned = {};
    return true;
  });
  phases_.clear();
  for (const PhasedJob& job : made.input.jobs) {
    FlowPhases::Job& phases = phases_.emplace_back();
    for (const std::vector<std::uint32_t>& indices : job.phases) {
      std::vector<FlowSlot>& phase = phases.emplace_back();
      for (const std::uint32_t index : indices) phase.push_back(made.input.slots[index]);
      std::ranges::sort(phase);
      phase.erase(std::unique(phase.begin(), phase.end()), phase.end());
      std::erase_if(phase, [&](FlowSlot slot) { return PathsOf(slot).empty(); });
    }
  }
  max_load_ = made.assigned.max_load;
  lower_bound_ = made.assigned.lower_bound;
  plans_.Add();
  planned_flows_.Set(static_cast<double>(flows_.size()));
  max_load_gauge_.Set(max_load_.Value());
}

std::span<const std::int32_t> PhasePlan::PathsOf(FlowSlot slot) const {
  if (slot.Index() >= planned_.size()) return {};
  const Planned& planned = planned_[slot.Index()];
  return std::span(paths_).subspan(planned.first, planned.count);
}

bool PhasePlan::IsOnPlan(FlowSlot slot) const {
  const auto planned = PathsOf(slot);
  const std::vector<Subflow>& subflows = state_.flows.At(slot).subflows;
  if (planned.empty() || planned.size() != subflows.size()) return false;
  for (std::size_t i = 0; i < subflows.size(); ++i) {
    const auto path = state_.flow_paths.PathOf(subflows[i]);
    if (!path || path->value() != planned[i]) return false;
  }
  return true;
}

void PhasePlan::Forget(FlowSlot slot) {
  if (making_) making_->closed.push_back(slot);
  if (slot.Index() >= planned_.size() || planned_[slot.Index()].count == 0) return;
  planned_[slot.Index()] = {};
  std::erase(flows_, slot);
}

}  // namespace espalier::controller
