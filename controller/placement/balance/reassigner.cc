#include "controller/placement/balance/reassigner.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "controller/routing/online_assigner.h"

namespace espalier::controller {
namespace {

// `units` in 1 / kLoadUnit.
std::int64_t PartOf(std::int64_t bytes, std::int64_t units) {
  __extension__ using Wide = __int128;
  return static_cast<std::int64_t>(Wide{bytes} * units / kLoadUnit);
}

}  // namespace

// Problem: find a better assignment of all flows, but move few bytes in flight: an assignment from
// scratch would move nearly every flow.
// Idea: two candidates. The first is from scratch; it stays as good if interchangeable spines are
// relabelled (KeepSpines) and the subflows of a flow exchange their paths (KeepSubflows), which
// keeps most flows in place. The second relieves the overloaded links of the present assignment.
// The first one wins if it moves few enough bytes and is strictly better, or if the configured
// algorithm is greedy, whose own assignment is then wanted.
// Invariant: flows that cannot move keep their paths in both. Without such flows, relabelling never
// changes the loads, as it happens only if all links of the Clos are up and equally fast.
// Cost: one assignment from scratch, O(subflows log subflows) for the relabelling, at most kSteps
// steps of repair, and two predictions of rates at equal maximum load.

std::optional<Assignment> Reassigner::FindBetter(const Elephants& elephants,
                                                 const Assignment& present,
                                                 std::span<const std::uint32_t> job_weights,
                                                 std::int64_t max_moved_bytes) {
  Assignment from_scratch = ChooseFromScratch(elephants, job_weights, present, max_moved_bytes);
  if (!IsWorthMoving(elephants, job_weights, present, from_scratch)) return std::nullopt;
  return from_scratch;
}

Assignment Reassigner::AssignFromScratch(const Elephants& elephants,
                                         std::span<const std::uint32_t> job_weights,
                                         const Assignment& present) {
  const std::vector<std::int32_t> fixed = FixedPathsOf(elephants, present);
  const AssignOptions options{.job_weights = job_weights,
                              .base_loads = elephants.base_loads,
                              .fixed_paths = fixed,
                              .shares = elephants.MayBeUneven() ? options_.shares : Shares::kEqual,
                              .is_rigid = elephants.is_rigid};
  return options_.algorithm == Algorithm::kGreedy
             ? assigner_.Greedy(elephants.commodities, options)
             : assigner_.Optimal(elephants.commodities, options);
}

void Reassigner::KeepSubflows(const Assignment& present, Assignment& from_scratch) {
  for (std::size_t i = 0; i + 1 < from_scratch.first.size(); ++i) {
    const std::size_t first = from_scratch.first[i];
    const auto subflows =
        std::span(from_scratch.paths).subspan(first, from_scratch.PathsOf(i).size());
    for (std::size_t subflow = 0; subflow < subflows.size(); ++subflow) {
      const std::int32_t old = present.PathsOf(i)[subflow];
      const auto same = std::ranges::find(subflows, old);
      if (same == subflows.end() || subflows[subflow] == old) continue;
      std::swap(*same, subflows[subflow]);
      if (from_scratch.shares.empty()) continue;
      const auto place = first + static_cast<std::size_t>(same - subflows.begin());
      std::swap(from_scratch.shares[place], from_scratch.shares[first + subflow]);
    }
  }
}

std::int64_t Reassigner::MovedBytes(const Elephants& elephants, std::size_t index,
                                    const Assignment& from, const Assignment& to) const {
  const auto before = from.PathsOf(index);
  const auto after = to.PathsOf(index);
  std::int64_t moving = 0;  // in 1 / kLoadUnit of the flow
  for (std::size_t subflow = 0; subflow < before.size(); ++subflow) {
    if (before[subflow] == after[subflow]) continue;
    moving += from.ShareOf(elephants.commodities[index], from.first[index] + subflow);
  }
  return PartOf(state_.BytesInFlight(elephants.slots[index]), moving);
}

std::int64_t Reassigner::MovedBytes(const Elephants& elephants, const Assignment& from,
                                    const Assignment& to) const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    bytes += MovedBytes(elephants, i, from, to);
  }
  return bytes;
}

void Reassigner::KeepSpines(const Elephants& elephants, const Assignment& present,
                            Assignment& from_scratch) const {
  const auto& clos = view_.clos();
  const bool are_alike = clos && clos->all_known && clos->equal_rates &&
                         clos->up_live == clos->up_known && clos->down_live == clos->down_known;
  const bool all_can_move = std::ranges::all_of(elephants.can_move, std::identity());
  const bool no_base =
      std::ranges::all_of(elephants.base_loads, [](std::int64_t load) { return load == 0; });
  if (!are_alike || !all_can_move || !no_base) return;
  // kept[{new, old}]: bytes in flight that stay in place if spine `new` of the new assignment is
  // relabelled as `old`, plus 1 for each subflow, so that idle flows count. Greedy matching.
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> kept;
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    const auto before = present.PathsOf(i);
    const auto after = from_scratch.PathsOf(i);
    const auto subflows = static_cast<std::int64_t>(after.size());
    for (std::size_t subflow = 0; subflow < after.size(); ++subflow) {
      kept[{after[subflow], before[subflow]}] +=
          1 + state_.BytesInFlight(elephants.slots[i]) / subflows;
    }
  }
  std::vector<std::pair<std::int64_t, std::pair<std::int32_t, std::int32_t>>> most;
  for (const auto& [spines, bytes] : kept) most.emplace_back(-bytes, spines);
  std::sort(most.begin(), most.end());
  std::vector<std::int32_t> becomes(clos->spines, kNoPath);
  std::vector<bool> is_taken(clos->spines);
  const auto take = [&](std::int32_t from, std::int32_t to) {
    becomes[static_cast<std::size_t>(from)] = to;
    is_taken[static_cast<std::size_t>(to)] = true;
  };
  for (const auto& [bytes, spines] : most) {
    const auto [from, to] = spines;
    const bool are_free = becomes[static_cast<std::size_t>(from)] == kNoPath &&
                          !is_taken[static_cast<std::size_t>(to)];
    if (are_free) take(from, to);
  }
  std::int32_t next = 0;
  for (std::int32_t spine = 0; spine < static_cast<std::int32_t>(clos->spines); ++spine) {
    if (becomes[static_cast<std::size_t>(spine)] != kNoPath) continue;
    while (is_taken[static_cast<std::size_t>(next)]) ++next;
    take(spine, next);
  }
  for (std::int32_t& path : from_scratch.paths) path = becomes[static_cast<std::size_t>(path)];
}

Assignment Reassigner::Repair(const Elephants& elephants, const Assignment& present,
                              std::int64_t max_moved_bytes) {
  constexpr std::int64_t kSteps = 2'000'000;  // about 20 ms
  std::vector<std::int64_t> bytes;            // by subflow
  OnlineAssigner live(view_, [&bytes](SubflowId subflow) { return bytes[subflow.Index()]; });
  live.SetBaseLoads(elephants.base_loads);
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    const Commodity& commodity = elephants.commodities[i];
    for (std::size_t entry = present.first[i]; entry < present.first[i + 1]; ++entry) {
      const std::int64_t share = present.ShareOf(commodity, entry);
      const auto subflow = live.Add(commodity.source, commodity.destination, share);
      bytes.push_back(PartOf(state_.BytesInFlight(elephants.slots[i]), share));
      live.Place(subflow, present.paths[entry]);
      live.SetInProgress(subflow);
      live.Pin(subflow, !elephants.can_move[i]);
    }
  }
  live.Rebalance(
      {.max_moves = bytes.size(), .max_moved_bytes = max_moved_bytes, .step_budget = kSteps});
  Assignment repaired = present;
  for (std::uint32_t subflow = 0; subflow < bytes.size(); ++subflow) {
    repaired.paths[subflow] = live.PathOf(SubflowId(subflow));
  }
  repaired.max_load = live.MaxLoad();
  return repaired;
}

Assignment Reassigner::ChooseFromScratch(const Elephants& elephants,
                                         std::span<const std::uint32_t> job_weights,
                                         const Assignment& present, std::int64_t max_moved_bytes) {
  Assignment from_scratch = AssignFromScratch(elephants, job_weights, present);
  KeepSpines(elephants, present, from_scratch);
  KeepSubflows(present, from_scratch);
  Assignment repaired = Repair(elephants, present, max_moved_bytes);
  const bool may_be = MovedBytes(elephants, present, from_scratch) <= max_moved_bytes;
  const bool is_asked_for = options_.algorithm == Algorithm::kGreedy;
  const bool takes_anew =
      may_be && (is_asked_for || IsWorthMoving(elephants, job_weights, repaired, from_scratch));
  return takes_anew ? from_scratch : repaired;
}

bool Reassigner::IsWorthMoving(const Elephants& elephants,
                               std::span<const std::uint32_t> job_weights, const Assignment& from,
                               const Assignment& to) {
  if (from.max_load != to.max_load) return to.max_load < from.max_load;
  const auto score = [&](const Assignment& assignment) {
    return ComputeScore(elephants.commodities,
                        rates_.Predict(elephants.commodities, assignment, elephants.base_loads),
                        job_weights);
  };
  const Score present = score(from);
  return IsBetter(score(to), present);
}

}  // namespace espalier::controller
