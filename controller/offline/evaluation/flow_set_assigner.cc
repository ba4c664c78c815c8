#include "controller/offline/evaluation/flow_set_assigner.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "controller/offline/comparators/comparators.h"
#include "controller/offline/comparators/ilp.h"
#include "controller/offline/evaluation/solver.h"
#include "controller/routing/bounds/load_bounds.h"
#include "controller/routing/bounds/tier_loads.h"
#include "controller/routing/model/rates.h"
#include "controller/routing/online/online_assigner.h"

namespace espalier::offline {
namespace {

using controller::Assignment;
using controller::Commodity;

// A flow's key for ECMP (FNV-1a). It depends on the flow's name alone, so that the flow keeps its
// path whatever else is in the file.
std::uint64_t HashName(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

}  // namespace

FlowSetAssigner::FlowSetAssigner(const fabric::Topology& topology, fabric::PathTable& paths,
                                 const FlowSet& flows, std::uint32_t split)
    : topology_(topology), flows_(flows), split_(split), view_(topology, paths) {
  for (std::size_t i = 0; i < flows.flows.size(); ++i) {
    const FlowRecord& flow = flows.flows[i];
    const auto source = paths.FindAttachment(flow.source);
    const auto destination = paths.FindAttachment(flow.destination);
    ESPALIER_CHECK(source && destination);
    const Commodity commodity = {.source = *view_.LeafOf(source->leaf),
                                 .destination = *view_.LeafOf(destination->leaf),
                                 .job = flow.job,
                                 .subflows = split,
                                 .source_link = controller::HostLink(source->uplink),
                                 .destination_link = controller::HostLink(destination->Downlink())};
    const auto is_dead = [&](std::uint32_t link) {
      return link != controller::kNoLink && view_.capacities()[link] == 0;
    };
    if (is_dead(commodity.source_link) || is_dead(commodity.destination_link)) continue;
    commodities_.push_back(commodity);
    flow_of_.push_back(i);
  }
}

Result<AssignmentResult> FlowSetAssigner::Assign(Algorithm algorithm, std::uint64_t seed,
                                                 controller::Shares shares) {
  const auto begin = std::chrono::steady_clock::now();
  auto assignment = RunAlgorithm(algorithm, seed, shares);
  const auto end = std::chrono::steady_clock::now();
  if (!assignment) return Propagate(assignment);
  AssignmentResult result = MakeResult(*assignment, shares == controller::Shares::kEqual ? 0 : 1);
  result.algorithm = AlgorithmName(algorithm);
  result.microseconds = std::chrono::duration<double, std::micro>(end - begin).count();
  return result;
}

Result<Assignment> FlowSetAssigner::RunAlgorithm(Algorithm algorithm, std::uint64_t seed,
                                                 controller::Shares shares) {
  controller::Assigner assigner(view_);
  if (algorithm == Algorithm::kGreedy) return assigner.Greedy(commodities_);
  if (algorithm == Algorithm::kOptimal) return assigner.Optimal(commodities_, {.shares = shares});
  if (algorithm == Algorithm::kAnnealing) {
    return AssignByAnnealing(view_, commodities_, {.seed = seed});
  }
  if (algorithm == Algorithm::kIlp) {
    const IlpProgram program(view_, commodities_);
    if (program.text().empty()) return program.ReadSolution("");
    auto solution = SolveWithCbc(program.text());
    if (!solution) return Propagate(solution);
    return program.ReadSolution(*solution);
  }
  std::vector<std::uint64_t> keys;
  for (const std::size_t flow : flow_of_) keys.push_back(HashName(flows_.flows[flow].id));
  return AssignByHash(view_, commodities_, keys, seed);
}

AssignmentResult FlowSetAssigner::Repair(const PreviousAssignment& previous,
                                         const MoveBudget& budget) {
  constexpr std::size_t kMaxChain = 64;  // moves in a chain for a flow without an earlier path
  constexpr std::int64_t kMaxSteps = 100'000'000;  // about a second
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::int64_t> bytes;  // by subflow
  controller::OnlineAssigner live(view_, [&bytes](auto subflow) { return bytes[subflow.Index()]; });
  std::vector<controller::SubflowId> subflows;
  std::vector<controller::SubflowId> placed_from_scratch;
  Assignment assignment;
  assignment.Clear(commodities_);
  for (std::size_t i = 0; i < commodities_.size(); ++i) {
    const Commodity& commodity = commodities_[i];
    if (commodity.source == commodity.destination) continue;
    const std::vector<std::int32_t> kept = KeptPaths(i, previous);
    for (const std::int32_t path : kept) {
      const auto subflow = live.Add(commodity.source, commodity.destination,
                                    controller::kLoadUnit / commodity.subflows);
      live.SetInProgress(subflow);
      bytes.push_back(flows_.flows[flow_of_[i]].bytes.value_or(0) / commodity.subflows);
      subflows.push_back(subflow);
      if (path == controller::kNoPath) {
        placed_from_scratch.push_back(subflow);
        continue;
      }
      live.Place(subflow, path);
      live.Pin(subflow, true);
    }
  }
  live.PlaceArrivals(placed_from_scratch, {.max_moves = kMaxChain});
  for (const auto subflow : subflows) live.Pin(subflow, false);
  if (budget.moves > 0) {
    live.Rebalance(
        {.max_moves = budget.moves, .max_moved_bytes = budget.bytes, .step_budget = kMaxSteps});
  }

  auto next = subflows.begin();
  for (std::size_t i = 0; i < commodities_.size(); ++i) {
    if (commodities_[i].source == commodities_[i].destination) continue;
    for (std::uint32_t entry = assignment.first[i]; entry < assignment.first[i + 1]; ++entry) {
      assignment.paths[entry] = live.PathOf(*next++);
    }
  }
  assignment.max_load = live.MaxLoad();
  const auto end = std::chrono::steady_clock::now();
  assignment.lower_bound = controller::ComputeLowerBound(view_, commodities_);
  AssignmentResult result = MakeResult(assignment);
  result.microseconds = std::chrono::duration<double, std::micro>(end - begin).count();
  CountMoves(previous, result);
  return result;
}

std::vector<std::int32_t> FlowSetAssigner::KeptPaths(std::size_t commodity,
                                                     const PreviousAssignment& previous) {
  std::vector<std::int32_t> kept;
  const auto known = previous.find(flows_.flows[flow_of_[commodity]].id);
  if (known != previous.end()) {
    for (const PreviousPath& path : known->second) {
      // An assignment with another split may have shares that are not whole subflows of this one.
      const std::int64_t subflows = path.share.numerator * split_;
      if (subflows % path.share.denominator != 0) continue;
      kept.insert(kept.end(), static_cast<std::size_t>(subflows / path.share.denominator),
                  FindPath(commodities_[commodity], path.links));
    }
  }
  kept.resize(split_, controller::kNoPath);
  return kept;
}

std::int32_t FlowSetAssigner::FindPath(const Commodity& commodity,
                                       const std::vector<std::string>& links) {
  std::vector<std::uint32_t> hops;
  // The links of NICs with several uplinks are among the hops.
  const std::size_t first = commodity.source_link == controller::kNoLink ? 0 : 1;
  const std::size_t last = commodity.destination_link == controller::kNoLink ? 0 : 1;
  const auto fits = [&] {
    if (first + hops.size() + last != links.size() || !view_.IsUsable(hops)) return false;
    for (std::size_t i = 0; i < hops.size(); ++i) {
      const fabric::LinkId link = fabric::DirectedLink::FromIndex(hops[i]).link;
      if (topology_.link(link).id != links[first + i]) return false;
    }
    return true;
  };
  if (const auto& clos = view_.clos()) {
    for (std::uint32_t spine = 0; spine < clos->spines; ++spine) {
      const std::uint32_t up = clos->up[commodity.source * clos->spines + spine];
      const std::uint32_t down = clos->down[commodity.destination * clos->spines + spine];
      if (up == controller::kNoLink || down == controller::kNoLink) continue;
      hops = {up, down};
      if (fits()) return clos->PathThrough(commodity.source, commodity.destination, spine);
    }
    return controller::kNoPath;
  }
  const auto& candidates = view_.Candidates(commodity.source, commodity.destination);
  for (std::size_t path = 0; path < candidates.size(); ++path) {
    const auto links_of_path = candidates.Hops(path);
    hops.assign(links_of_path.begin(), links_of_path.end());
    if (fits()) return static_cast<std::int32_t>(path);
  }
  return controller::kNoPath;
}

void FlowSetAssigner::CountMoves(const PreviousAssignment& previous,
                                 AssignmentResult& result) const {
  for (std::size_t i = 0; i < result.flows.size(); ++i) {
    const auto known = previous.find(flows_.flows[i].id);
    if (known == previous.end() || known->second.empty() || result.flows[i].paths.empty()) continue;
    // The links from NIC to NIC with their part of the flow, sorted.
    std::vector<std::pair<std::vector<std::string>, double>> before;
    for (const PreviousPath& path : known->second) {
      before.emplace_back(path.links, path.share.Value());
    }
    std::vector<std::pair<std::vector<std::string>, double>> now;
    for (const AssignedPath& path : result.flows[i].paths) {
      auto& entry = now.emplace_back();
      for (const std::uint32_t link : path.links) {
        entry.first.push_back(topology_.link(fabric::DirectedLink::FromIndex(link).link).id);
      }
      entry.second = static_cast<double>(path.share) / static_cast<double>(controller::kLoadUnit);
    }
    std::ranges::sort(before);
    std::ranges::sort(now);
    if (before == now) continue;
    ++result.moved_flows;
    result.moved_bytes += flows_.flows[i].bytes.value_or(0);
  }
}

AssignmentResult FlowSetAssigner::MakeResult(const Assignment& assignment, std::int64_t portion) {
  AssignmentResult result;
  result.max_load = assignment.max_load;
  result.lower_bound = assignment.lower_bound;
  result.proof = assignment.proof;
  if (view_.folded_clos()) {
    const auto bounds = controller::ComputeTierBounds(view_, commodities_, {}, portion).tiers;
    const auto loads = controller::ComputeTierLoads(view_, commodities_, assignment);
    for (std::size_t tier = 0; tier < loads.size(); ++tier) {
      result.tiers.push_back({loads[tier], bounds[tier]});
    }
  }
  result.flows.resize(flows_.flows.size(), {.subflows = split_});
  std::vector<double> rates(flows_.flows.size());  // 0 for flows without a path
  controller::RatePredictor predictor(view_);
  const std::span<const double> predicted = predictor.Predict(commodities_, assignment);
  for (std::size_t i = 0; i < commodities_.size(); ++i) {
    AssignedFlow& flow = result.flows[flow_of_[i]];
    rates[flow_of_[i]] = predicted[i];
    const bool is_local = commodities_[i].source == commodities_[i].destination;
    if (is_local) flow.state = AssignmentState::kLocal;
    if (is_local || assignment.PathsOf(i).front() == controller::kNoPath) continue;
    flow.state = AssignmentState::kRouted;
    flow.paths = PathsOf(i, assignment);
  }
  result.job_rates_bps.assign(flows_.jobs.size(), std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < rates.size(); ++i) {
    double& slowest = result.job_rates_bps[flows_.flows[i].job];
    slowest = std::min(slowest, rates[i]);
  }
  return result;
}

std::vector<AssignedPath> FlowSetAssigner::PathsOf(std::size_t index,
                                                   const Assignment& assignment) {
  const Commodity& commodity = commodities_[index];
  std::map<std::int32_t, std::int64_t> shares;  // by path
  for (std::size_t i = assignment.first[index]; i < assignment.first[index + 1]; ++i) {
    shares[assignment.paths[i]] += assignment.ShareOf(commodity, i);
  }
  std::vector<AssignedPath> planned;
  for (const auto& [number, share] : shares) {
    AssignedPath& path = planned.emplace_back();
    path.share = share;
    if (commodity.source_link != controller::kNoLink) path.links.push_back(commodity.source_link);
    view_.AppendHops(commodity.source, commodity.destination, number, path.links);
    if (commodity.destination_link != controller::kNoLink) {
      path.links.push_back(commodity.destination_link);
    }
  }
  return planned;
}

}  // namespace espalier::offline
