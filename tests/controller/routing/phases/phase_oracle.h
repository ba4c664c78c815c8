#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "controller/routing/phase_assignment.h"
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

struct Optimum {
  Load max_load{std::numeric_limits<std::int32_t>::max(), 1};
  std::size_t moved = 0;  // the fewest at that load
};

// Tries all assignments.
inline Optimum SolveByBruteForce(const FabricView& view, const PhaseCase& input) {
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
  Optimum best;
  for (;;) {
    std::size_t moved = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      paths[i] = choices[i][at[i]];
      const bool was_usable =
          std::ranges::find(choices[i], input.flows[i].path) != choices[i].end();
      if (was_usable && input.flows[i].path != kNoPath && paths[i] != input.flows[i].path) ++moved;
    }
    const Load load = WorstLoad(view, input, paths);
    if (load < best.max_load || (load == best.max_load && moved < best.moved)) best = {load, moved};
    std::size_t digit = 0;
    while (digit < at.size() && ++at[digit] == choices[digit].size()) at[digit++] = 0;
    if (digit == at.size()) return best;
  }
}

}  // namespace espalier::controller
