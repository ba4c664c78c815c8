#include "controller/routing/phases/phase_coloring.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "common/graph/edge_coloring.h"

namespace espalier::controller {
namespace {

constexpr std::uint32_t kNone = PhaseProblem::kNoRoute;
constexpr std::int64_t kUnmovableWeight = 1'000;  // agreement with flows that must stay

// A set of flows of one job that no phase uses together with another colouring of the job.
struct ColoredPhase {
  std::vector<std::uint32_t> flows;
  std::vector<std::uint16_t> classes;  // by flow
  std::uint32_t class_count = 0;
};

// Problem: give every phase of every job a proper edge colouring whose classes (matchings) are
// spread over the spines so that any phases of two jobs may meet.
// Idea: job j reserves K_j slots, each on one spine. A phase puts each of its classes into a slot
// of its own; it has at most K_j. A class has one flow at a leaf, so a link carries at most as many
// shares of job j as j has slots on its spine, whatever the phase. Slots are placed one by one on
// the spine on which the leaves of the job have fewest of them. Between jobs on the same leaves
// that is round robin; jobs on different leaves do not see each other.
// Invariant: two classes of one phase are never in one slot.
// Cost: as in the header.
class PhaseColorist {
 public:
  explicit PhaseColorist(const PhaseProblem& problem)
      : problem_(problem),
        first_routes_(problem.CommonRoutes()),
        spines_(static_cast<std::uint32_t>(first_routes_.size())),
        routes_(problem.flow_count(), kNone) {}

  std::optional<std::vector<std::uint32_t>> Color() {
    if (first_routes_.empty()) return std::nullopt;
    const Clos& clos = *problem_.view().clos();
    reserved_.assign(2 * std::size_t{clos.leaves} * spines_, 0);
    AddBaseLoads();
    for (const std::uint32_t job : OrderJobs()) {
      if (!ColorJob(job)) return std::nullopt;
    }
    for (std::uint32_t flow = 0; flow < problem_.flow_count(); ++flow) {
      if (problem_.IsPlaced(flow) && !problem_.IsMovable(flow))
        routes_[flow] = problem_.HomeOf(flow);
    }
    return std::move(routes_);
  }

 private:
  std::size_t SideOf(std::uint32_t leaf, bool sends) const {
    return (2 * std::size_t{leaf} + (sends ? 1 : 0)) * spines_;
  }

  void AddBaseLoads() {
    const Clos& clos = *problem_.view().clos();
    for (std::uint32_t leaf = 0; leaf < clos.leaves; ++leaf) {
      for (std::uint32_t i = 0; i < spines_; ++i) {
        const std::size_t at = std::size_t{leaf} * clos.spines + first_routes_[i].color;
        if (clos.up[at] != kNoLink)
          reserved_[SideOf(leaf, true) + i] = problem_.BaseOf(clos.up[at]);
        if (clos.down[at] != kNoLink) {
          reserved_[SideOf(leaf, false) + i] = problem_.BaseOf(clos.down[at]);
        }
      }
    }
  }

  // Jobs with large shares first, then those with large phases.
  std::vector<std::uint32_t> OrderJobs() const {
    std::vector<std::tuple<std::int64_t, std::int64_t, std::uint32_t>> keys;
    for (std::uint32_t job = 0; job < problem_.job_count(); ++job) {
      std::int64_t share = 0;
      std::int64_t flows = 0;
      for (std::uint32_t p = 0; p < problem_.PhaseCountOf(job); ++p) {
        const auto members = problem_.FlowsOf(problem_.FirstPhaseOf(job) + p);
        flows = std::max(flows, static_cast<std::int64_t>(members.size()));
        for (const std::uint32_t flow : members)
          share = std::max(share, problem_.FlowAt(flow).share);
      }
      keys.emplace_back(-share, -flows, job);
    }
    std::ranges::sort(keys);
    std::vector<std::uint32_t> order;
    for (const auto& key : keys) order.push_back(std::get<2>(key));
    return order;
  }

  // Colours the flows of this phase that have no route yet. False: too many colours.
  bool ColorFlows(std::vector<std::uint32_t> flows, ColoredPhase& phase) {
    std::ranges::sort(flows, {}, [&](std::uint32_t flow) {
      return std::pair(problem_.FlowAt(flow).source, flow);
    });
    const std::uint32_t leaves = problem_.view().leaf_count();
    std::vector<graph::BipartiteEdge> edges;
    std::vector<std::uint32_t> degrees(2 * std::size_t{leaves});
    for (const std::uint32_t flow : flows) {
      const PhaseFlow& state = problem_.FlowAt(flow);
      edges.push_back({state.source, state.destination});
      ++degrees[state.source];
      ++degrees[leaves + state.destination];
    }
    phase.class_count = *std::ranges::max_element(degrees);
    if (phase.class_count > graph::EdgeColoring::kMaxColors) return false;
    const auto classes = coloring_.Color(edges, leaves, leaves, phase.class_count);
    phase.classes.assign(classes.begin(), classes.end());
    phase.flows = std::move(flows);
    return true;
  }

  bool ColorJob(std::uint32_t job) {
    std::vector<std::uint32_t> order(problem_.PhaseCountOf(job));
    std::iota(order.begin(), order.end(), problem_.FirstPhaseOf(job));
    std::vector<bool> is_taken(problem_.flow_count());
    std::vector<ColoredPhase> phases;
    std::uint32_t most = 0;
    std::int64_t share = 0;
    for (const std::uint32_t phase : order) {  // by descending size: see PhaseProblem
      std::vector<std::uint32_t> flows;
      for (const std::uint32_t flow : problem_.FlowsOf(phase)) {
        if (routes_[flow] != kNone || is_taken[flow]) continue;
        is_taken[flow] = true;
        share = std::max(share, problem_.FlowAt(flow).share);
        flows.push_back(flow);
      }
      if (flows.empty()) continue;
      phases.emplace_back();
      if (!ColorFlows(std::move(flows), phases.back())) return false;
      most = std::max(most, phases.back().class_count);
    }
    const std::vector<std::uint32_t> slots = ReserveSlots(phases, most, share);
    for (const ColoredPhase& phase : phases) FillSlots(phase, slots);
    return true;
  }

  // Returns how many slots the job has on each spine.
  std::vector<std::uint32_t> ReserveSlots(std::span<const ColoredPhase> phases, std::uint32_t count,
                                          std::int64_t share) {
    std::vector<std::int64_t> wanted(spines_);
    std::vector<std::size_t> sides;
    for (const ColoredPhase& phase : phases) {
      for (const std::uint32_t flow : phase.flows) {
        sides.push_back(SideOf(problem_.FlowAt(flow).source, true));
        sides.push_back(SideOf(problem_.FlowAt(flow).destination, false));
        if (problem_.HomeOf(flow) != kNone) wanted[problem_.HomeOf(flow)] += WeightOf(flow);
      }
    }
    std::ranges::sort(sides);
    sides.erase(std::unique(sides.begin(), sides.end()), sides.end());
    std::vector<std::int64_t> busiest(spines_);  // of the job's links, by spine
    for (const std::size_t side : sides) {
      for (std::uint32_t i = 0; i < spines_; ++i) {
        busiest[i] = std::max(busiest[i], reserved_[side + i]);
      }
    }
    std::vector<std::uint32_t> slots(spines_);
    for (std::uint32_t k = 0; k < count; ++k) {
      std::uint32_t best = 0;
      const auto key = [&](std::uint32_t i) {
        return std::tuple(busiest[i], slots[i], -wanted[i]);
      };
      for (std::uint32_t i = 1; i < spines_; ++i) {
        if (key(i) < key(best)) best = i;
      }
      ++slots[best];
      busiest[best] += share;
      for (const std::size_t side : sides) reserved_[side + best] += share;
    }
    return slots;
  }

  std::int64_t WeightOf(std::uint32_t flow) const {
    return problem_.IsMovable(flow) ? 1 : kUnmovableWeight;
  }

  // Gives each class of the phase a slot, those first that agree most with the present paths.
  void FillSlots(const ColoredPhase& phase, std::vector<std::uint32_t> slots) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> agreement;  // class, spine
    for (std::size_t i = 0; i < phase.flows.size(); ++i) {
      const std::uint32_t home = problem_.HomeOf(phase.flows[i]);
      if (home != kNone) agreement[{phase.classes[i], home}] += WeightOf(phase.flows[i]);
    }
    std::vector<std::tuple<std::int64_t, std::uint32_t, std::uint32_t>> pairs;
    for (const auto& [pair, weight] : agreement)
      pairs.emplace_back(-weight, pair.first, pair.second);
    std::ranges::sort(pairs);
    std::vector<std::uint32_t> spine_of(phase.class_count, kNone);
    for (const auto& [weight, color, spine] : pairs) {
      if (spine_of[color] != kNone || slots[spine] == 0) continue;
      spine_of[color] = spine;
      --slots[spine];
    }
    for (std::uint32_t& spine : spine_of) {
      if (spine != kNone) continue;
      spine = static_cast<std::uint32_t>(std::ranges::max_element(slots) - slots.begin());
      --slots[spine];
    }
    for (std::size_t i = 0; i < phase.flows.size(); ++i) {
      routes_[phase.flows[i]] = spine_of[phase.classes[i]];
    }
  }

  const PhaseProblem& problem_;
  graph::EdgeColoring coloring_;
  std::span<const PhaseProblem::Route> first_routes_;  // the same colours for all flows
  std::uint32_t spines_;
  std::vector<std::uint32_t> routes_;
  std::vector<std::int64_t> reserved_;  // by side and spine, in units
};

}  // namespace

std::optional<std::vector<std::uint32_t>> ColorPhases(const PhaseProblem& problem) {
  return PhaseColorist(problem).Color();
}

}  // namespace espalier::controller
