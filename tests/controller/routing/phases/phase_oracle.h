#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "controller/routing/phases/phase_assignment.h"
#include "controller/routing/phases/phase_bounds.h"
#include "tests/controller/routing/test_fabric.h"

namespace espalier::controller {

// A problem of phases, and slow, independent ways to evaluate and solve it.
struct PhaseCase {
  std::vector<std::int64_t> base;
  std::vector<PhaseFlow> flows;
  std::vector<PhasedJob> jobs;

  // Adds a flow and returns its index.
  std::uint32_t Add(std::uint32_t source, std::uint32_t destination, std::int32_t path = kNoPath,
                    std::int64_t share = kLoadUnit) {
    flows.push_back({.source = source, .destination = destination, .share = share, .path = path});
    return static_cast<std::uint32_t>(flows.size() - 1);
  }
  PhaseAssignment Assign(const FabricView& view, const PhaseOptions& options = {}) const {
    return AssignPhases(view, base, flows, jobs, options);
  }
};

// The worst loads by link, as AssignPhases defines them: base, plus each job's maximum over phases,
// plus the flows in no phase.
inline std::vector<std::int64_t> WorstLoads(const FabricView& view, const PhaseCase& input,
                                            std::span<const std::int32_t> paths) {
  const std::size_t links = view.capacities().size();
  std::vector<std::int64_t> worst(links);
  for (std::uint32_t link = 0; link < input.base.size(); ++link) {
    if (view.IsSwitchLink(link) && view.capacities()[link] > 0) worst[link] = input.base[link];
  }
  const auto add = [&](std::uint32_t flow, std::vector<std::int64_t>& loads) {
    if (paths[flow] == kNoPath) return;
    std::vector<std::uint32_t> hops;
    view.AppendHops(input.flows[flow].source, input.flows[flow].destination, paths[flow], hops);
    if (!view.IsUsable(hops)) return;
    for (const std::uint32_t link : hops) loads[link] += input.flows[flow].share;
  };
  std::vector<bool> in_phase(input.flows.size());
  for (const PhasedJob& job : input.jobs) {
    std::vector<std::int64_t> peak(links);
    for (std::vector<std::uint32_t> phase : job.phases) {
      std::ranges::sort(phase);
      phase.erase(std::unique(phase.begin(), phase.end()), phase.end());
      std::vector<std::int64_t> loads(links);
      for (const std::uint32_t flow : phase) {
        in_phase[flow] = true;
        add(flow, loads);
      }
      for (std::size_t i = 0; i < links; ++i) peak[i] = std::max(peak[i], loads[i]);
    }
    for (std::size_t i = 0; i < links; ++i) worst[i] += peak[i];
  }
  for (std::uint32_t flow = 0; flow < input.flows.size(); ++flow) {
    if (!in_phase[flow]) add(flow, worst);
  }
  return worst;
}

// The greatest load of a link with a movable flow.
inline Load WorstLoad(const FabricView& view, const PhaseCase& input,
                      std::span<const std::int32_t> paths) {
  const auto loads = WorstLoads(view, input, paths);
  Load most;
  for (std::size_t flow = 0; flow < input.flows.size(); ++flow) {
    if (paths[flow] == kNoPath || !input.flows[flow].movable) continue;
    std::vector<std::uint32_t> hops;
    view.AppendHops(input.flows[flow].source, input.flows[flow].destination, paths[flow], hops);
    for (const std::uint32_t link : hops) {
      most = std::max(most, MakeLoad(view, loads[link], view.capacities()[link]));
    }
  }
  return most;
}

// The greatest load that each phase alone puts on a link with a movable flow of it, with the base
// load, the greatest first. Phases that are part of another one of their job do not count.
inline std::vector<Load> LoadsAlone(const FabricView& view, const PhaseCase& input,
                                    std::span<const std::int32_t> paths) {
  std::vector<Load> alone;
  std::vector<bool> in_phase(input.flows.size());
  const auto measure = [&](const std::set<std::uint32_t>& phase) {
    std::vector<std::int64_t> loads(view.capacities().size());
    std::ranges::copy(input.base, loads.begin());
    std::vector<std::uint32_t> movable;
    bool is_placed = false;
    for (const std::uint32_t flow : phase) {
      if (paths[flow] == kNoPath) continue;
      std::vector<std::uint32_t> hops;
      view.AppendHops(input.flows[flow].source, input.flows[flow].destination, paths[flow], hops);
      if (!view.IsUsable(hops)) continue;
      is_placed = true;
      for (const std::uint32_t link : hops) loads[link] += input.flows[flow].share;
      if (input.flows[flow].movable) movable.insert(movable.end(), hops.begin(), hops.end());
    }
    if (!is_placed) return;
    Load most;
    for (const std::uint32_t link : movable) {
      most = std::max(most, MakeLoad(view, loads[link], view.capacities()[link]));
    }
    alone.push_back(most);
  };
  const auto is_placed = [&](std::uint32_t flow) { return paths[flow] != kNoPath; };
  for (const PhasedJob& job : input.jobs) {
    std::set<std::set<std::uint32_t>> phases;
    for (const auto& phase : job.phases) {
      std::set<std::uint32_t> members;
      for (const std::uint32_t flow : phase) {
        in_phase[flow] = true;
        if (is_placed(flow)) members.insert(flow);
      }
      phases.insert(members);
    }
    for (const auto& phase : phases) {
      const bool is_part = std::ranges::any_of(phases, [&](const auto& other) {
        return other != phase && std::ranges::includes(other, phase);
      });
      if (!is_part) measure(phase);
    }
  }
  std::set<std::uint32_t> others;
  for (std::uint32_t flow = 0; flow < input.flows.size(); ++flow) {
    if (!in_phase[flow]) others.insert(flow);
  }
  measure(others);
  std::ranges::sort(alone, std::ranges::greater{});
  return alone;
}

// What is above the even shares of leaves, over all links with a movable flow.
inline std::int64_t ExcessLoad(const FabricView& view, const PhaseCase& input,
                               std::span<const std::int32_t> paths) {
  const PhaseBounds bounds =
      ComputePhaseBounds(PhaseProblem(view, input.base, input.flows, input.jobs));
  const auto loads = WorstLoads(view, input, paths);
  std::set<std::uint32_t> links;
  for (std::size_t flow = 0; flow < input.flows.size(); ++flow) {
    if (paths[flow] == kNoPath || !input.flows[flow].movable) continue;
    std::vector<std::uint32_t> hops;
    view.AppendHops(input.flows[flow].source, input.flows[flow].destination, paths[flow], hops);
    links.insert(hops.begin(), hops.end());
  }
  std::int64_t excess = 0;
  for (const std::uint32_t link : links) {
    excess += std::max<std::int64_t>(0, loads[link] - bounds.even_share[link]);
  }
  return excess;
}

// What AssignPhases minimises, in this order. Without `every_leaf`, only the first and the last.
struct Objective {
  Load max_load{std::numeric_limits<std::int32_t>::max(), 1};
  std::int64_t excess = 0;
  std::vector<Load> alone;
  std::size_t moved = 0;

  std::strong_ordering operator<=>(const Objective&) const = default;
};

inline Objective Evaluate(const FabricView& view, const PhaseCase& input,
                          std::span<const std::int32_t> paths, bool every_leaf) {
  Objective objective{.max_load = WorstLoad(view, input, paths)};
  if (every_leaf) {
    objective.excess = ExcessLoad(view, input, paths);
    objective.alone = LoadsAlone(view, input, paths);
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const PhaseFlow& flow = input.flows[i];
    if (paths[i] == kNoPath || flow.path == kNoPath || paths[i] == flow.path) continue;
    std::vector<std::uint32_t> hops;
    view.AppendHops(flow.source, flow.destination, flow.path, hops);
    objective.moved += view.IsUsable(hops);
  }
  return objective;
}

// Tries all assignments.
inline Objective SolveByBruteForce(const FabricView& view, const PhaseCase& input,
                                   bool every_leaf) {
  std::vector<std::vector<std::int32_t>> choices;
  for (const PhaseFlow& flow : input.flows) {
    std::vector<std::int32_t> usable;
    if (flow.source != flow.destination) {
      const CandidatePaths& paths = view.Candidates(flow.source, flow.destination);
      for (std::size_t path = 0; path < paths.size(); ++path) {
        if (view.IsUsable(paths.Hops(path))) usable.push_back(static_cast<std::int32_t>(path));
      }
    }
    if (!flow.movable) usable = {flow.path};
    if (usable.empty()) usable = {kNoPath};
    choices.push_back(std::move(usable));
  }
  std::vector<std::size_t> at(input.flows.size());
  std::vector<std::int32_t> paths(input.flows.size());
  Objective best;
  for (;;) {
    for (std::size_t i = 0; i < at.size(); ++i) paths[i] = choices[i][at[i]];
    // Most assignments lose by their maximum alone.
    if (WorstLoad(view, input, paths) <= best.max_load) {
      best = std::min(best, Evaluate(view, input, paths, every_leaf));
    }
    std::size_t digit = 0;
    while (digit < at.size() && ++at[digit] == choices[digit].size()) at[digit++] = 0;
    if (digit == at.size()) return best;
  }
}

}  // namespace espalier::controller
