#include "controller/routing/assigner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "controller/routing/bounds/load_bounds.h"
#include "controller/routing/bounds/tier_loads.h"

namespace espalier::controller {
namespace {

__extension__ using Wide = __int128;

// The next higher load that whole shares can make on a link of one of the fabric's rates.
Load NextLoad(const FabricView& view, const Load& load, std::int64_t share) {
  const fabric::FoldedClos& clos = *view.folded_clos();
  Load next{std::numeric_limits<std::int64_t>::max(), 1};
  for (std::uint32_t part = 0; part < clos.parts; ++part) {
    for (std::uint32_t tier = 0; tier + 1 < clos.tiers; ++tier) {
      const std::int64_t rate = view.LinksAbove(part, tier).rate_bps;
      if (rate == 0) continue;
      const Wide units =
          Wide{load.numerator} * kLoadUnit * rate / (Wide{load.denominator} * view.unit_bps());
      const auto shares = static_cast<std::int64_t>(units / share) + 1;
      next = std::min(next, MakeLoad(view, shares * share, rate));
    }
  }
  return next;
}

// The commodities of each job. Groups of greater weight come first, as sharing a link
// slows them more relative to their weight; then smaller groups, which are cheaper to shield.
std::vector<std::vector<std::uint32_t>> GroupsToShield(std::span<const Commodity> commodities,
                                                       const AssignOptions& options) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_job;
  for (std::uint32_t i = 0; i < commodities.size(); ++i) {
    const Commodity& commodity = commodities[i];
    if (commodity.source == commodity.destination) continue;
    by_job[commodity.job].push_back(i);
  }
  std::vector<std::vector<std::uint32_t>> groups;
  for (auto& [job, group] : by_job) groups.push_back(std::move(group));
  const auto weight_of = [&](const std::vector<std::uint32_t>& group) {
    const std::uint32_t job = commodities[group.front()].job;
    return options.job_weights.empty() ? 1U : options.job_weights[job];
  };
  std::stable_sort(groups.begin(), groups.end(), [&](const auto& x, const auto& y) {
    const std::uint32_t of_x = weight_of(x);
    const std::uint32_t of_y = weight_of(y);
    return of_x != of_y ? of_x > of_y : x.size() < y.size();
  });
  return groups;
}

// Whether the second layer of fairness has something to weigh.
bool HasSeveralJobs(std::span<const Commodity> commodities) {
  return std::ranges::any_of(commodities, [&](const Commodity& commodity) {
    return commodity.job != commodities.front().job;
  });
}

}  // namespace

// Problem: spread all commodities over the fabric so that the most loaded link carries least and,
// among such assignments, slow jobs are as fast as possible (RLM, sections 3.3 and 8).
// Idea: Optimal has three stages. (1) EquitablePaths (two tiers), StagedPaths (any folded Clos) or
// BundledPaths (parallel links, NICs with several uplinks) give the optimum where a theorem
// applies. (2) Elsewhere, in a folded Clos, EjectionSearch repairs what stages give as if all links
// were up. In any fabric, Greedy gives a start, and rearrangement chains lower its maximum load:
// the limit of all links is set just below it, and each link above the limit is relieved (Improve).
// (3) ChooseFairest keeps that load. For one job after the other, the heaviest weight and then the
// fewest flows first, it raises the counted shares of the job's subflows, so that chains move other
// flows off its links (Shield). It also tries Greedy in two orders, and keeps the best score. Base
// loads and fixed paths count in base_ and in the base loads of the occupancy. Until Finish,
// max_load and lower_bound are those of the links that carry subflows that can move: a link that is
// full in any case must not stop the improvement of the others. Invariant: result_.max_load never
// grows after stage 1 or Greedy; a failed Shield is undone. Cost: each stage is bounded by
// step_budget; Greedy is O(candidate hops), a score O(subflows x hops x passes) of water-filling.

void Assigner::Begin(std::span<const Commodity> commodities, const AssignOptions& options) {
  result_.Clear(commodities);
  fixed_ = options.fixed_paths;
  has_base_ = false;
  if (fixed_.empty() && options.base_loads.empty()) return;  // base_ is not read
  base_.assign(view_.capacities().size(), 0);
  for (std::size_t link = 0; link < options.base_loads.size(); ++link) {
    if (view_.IsSwitchLink(static_cast<std::uint32_t>(link)) && view_.capacities()[link] > 0)
      base_[link] = options.base_loads[link];
  }
  for (std::size_t i = 0; !fixed_.empty() && i < commodities.size(); ++i) {
    const Commodity& commodity = commodities[i];
    for (std::uint32_t entry = result_.first[i]; entry < result_.first[i + 1]; ++entry) {
      if (!IsFixed(entry)) continue;
      result_.paths[entry] = fixed_[entry];
      hops_.clear();
      view_.AppendHops(commodity.source, commodity.destination, fixed_[entry], hops_);
      for (const std::uint32_t link : hops_) {
        if (view_.capacities()[link] > 0) base_[link] += kLoadUnit / commodity.subflows;
      }
    }
  }
  has_base_ = std::any_of(base_.begin(), base_.end(), [](auto load) { return load > 0; });
}

void Assigner::Finish() {
  if (has_base_) {
    const Load base = ComputeMaxLoad(view_, base_);
    result_.max_load = std::max(result_.max_load, base);
    result_.lower_bound = std::max(result_.lower_bound, base);
  }
  if (result_.max_load == result_.lower_bound && result_.proof == Proof::kNone) {
    result_.proof = Proof::kBoundMet;
  }
}

Load Assigner::MaxLoad(std::span<const std::int64_t> loads) {
  if (!has_base_) return ComputeMaxLoad(view_, loads);
  assigned_loads_.assign(loads.begin(), loads.end());
  for (std::size_t link = 0; link < loads.size(); ++link) {
    if (loads[link] == base_[link]) assigned_loads_[link] = 0;
  }
  return ComputeMaxLoad(view_, assigned_loads_);
}

Load Assigner::LowerBound(std::span<const Commodity> commodities, std::int64_t portion) {
  if (!has_base_) return ComputeLowerBound(view_, commodities, {}, portion);
  movable_.clear();
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    if (!IsFixed(result_.first[i])) movable_.push_back(commodities[i]);
  }
  return ComputeLowerBound(view_, movable_, base_, portion);
}

std::int32_t Assigner::ChooseLeastLoaded(const Commodity& commodity) {
  if (view_.folded_clos()) {
    return labels_.LeastLoaded(loads_, commodity.source, commodity.destination);
  }
  const CandidatePaths& paths = view_.Candidates(commodity.source, commodity.destination);
  std::int32_t best = kNoPath;
  LoadRatio least;
  for (std::size_t path = 0; path < paths.size(); ++path) {
    if (!view_.IsUsable(paths.Hops(path))) continue;
    LoadRatio busiest;
    for (const std::uint32_t link : paths.Hops(path)) {
      busiest = std::max(busiest, LoadRatio{loads_[link], view_.capacities()[link]});
    }
    if (best != kNoPath && !(busiest < least)) continue;
    best = static_cast<std::int32_t>(path);
    least = busiest;
  }
  return best;
}

std::int32_t Assigner::ChooseLeastLoadedSpine(const Clos& clos, const Commodity& commodity) const {
  const auto capacities = view_.capacities();
  std::int32_t best = -1;
  LoadRatio least;
  for (std::uint32_t spine = 0; spine < clos.spines; ++spine) {
    const std::uint32_t up = clos.up[std::size_t{commodity.source} * clos.spines + spine];
    const std::uint32_t down = clos.down[std::size_t{commodity.destination} * clos.spines + spine];
    if (up == kNoLink || down == kNoLink || capacities[up] == 0 || capacities[down] == 0) continue;
    const LoadRatio busiest =
        std::max(LoadRatio{loads_[up], capacities[up]}, LoadRatio{loads_[down], capacities[down]});
    if (best >= 0 && !(busiest < least)) continue;
    best = static_cast<std::int32_t>(spine);
    least = busiest;
  }
  return best;
}

void Assigner::AssignGreedily(std::span<const Commodity> commodities,
                              std::span<const std::uint32_t> order) {
  if (has_base_) {
    loads_ = base_;
  } else {
    loads_.assign(view_.capacities().size(), 0);
  }
  const Clos* const clos = view_.clos() ? &*view_.clos() : nullptr;
  for (std::size_t place = 0; place < commodities.size(); ++place) {
    const std::size_t i = order.empty() ? place : order[place];
    const Commodity& commodity = commodities[i];
    if (commodity.source == commodity.destination || IsFixed(result_.first[i])) continue;
    for (std::uint32_t subflow = 0; subflow < commodity.subflows; ++subflow) {
      std::int32_t best =
          clos != nullptr ? ChooseLeastLoadedSpine(*clos, commodity) : ChooseLeastLoaded(commodity);
      if (best < 0) break;
      if (clos != nullptr) {
        best = clos->PathThrough(commodity.source, commodity.destination,
                                 static_cast<std::uint32_t>(best));
      }
      hops_.clear();
      view_.AppendHops(commodity.source, commodity.destination, best, hops_);
      for (const std::uint32_t link : hops_) loads_[link] += kLoadUnit / commodity.subflows;
      result_.paths[result_.first[i] + subflow] = best;
    }
  }
  result_.max_load = MaxLoad(loads_);
}

const Assignment& Assigner::Greedy(std::span<const Commodity> commodities,
                                   const AssignOptions& options) {
  Begin(commodities, options);
  AssignGreedily(commodities, {});
  result_.lower_bound = LowerBound(commodities);
  Finish();
  return result_;
}

const Assignment& Assigner::Optimal(std::span<const Commodity> commodities,
                                    const AssignOptions& options) {
  std::int64_t steps = options.step_budget;
  repair_budget_ = 40 * std::min(steps, std::numeric_limits<std::int64_t>::max() / 40);
  Begin(commodities, options);
  const bool is_staged =
      !has_base_ && (equitable_.Assign(commodities, result_) ||
                     staged_.Assign(commodities, result_) || bundled_.Assign(commodities, result_));
  if (!is_staged && !RepairToBound(commodities)) {
    AssignGreedily(commodities, {});
    result_.lower_bound = LowerBound(commodities);
  } else if (result_.max_load > result_.lower_bound) {
    TakeGreedyIfBetter(commodities);
  }
  if (result_.max_load > result_.lower_bound) RepairStages(commodities, is_staged);
  if (result_.max_load > result_.lower_bound && steps > 0 && CanListPaths(view_, commodities)) {
    Occupy(commodities);
    Improve(steps);
    TakePathsFromOccupancy();
  }
  if (options.shares != Shares::kEqual && DivideUnevenly(commodities, options)) {
    Finish();
    return result_;
  }
  // If no link carries more than one flow, all flows are as fast as possible. A budget below two
  // scores would improve nothing.
  const auto looks = 2 * static_cast<std::int64_t>(commodities.size());
  // Where a repair has met the bound, the slowest flow of a single job cannot be faster.
  const bool is_repaired = !is_staged && result_.max_load <= result_.lower_bound;
  const bool can_be_fairer = !is_repaired || HasSeveralJobs(commodities);
  if (result_.max_load > Load{1, 1} && steps > looks && can_be_fairer) {
    ChooseFairest(commodities, options, steps);
  }
  Finish();
  return result_;
}

bool Assigner::DivideUnevenly(std::span<const Commodity> commodities,
                              const AssignOptions& options) {
  divided_.Clear(commodities);
  const bool is_divided =
      !has_base_ && fixed_.empty() &&
      uneven_.Assign(commodities, UnevenPaths::Rule::kExact, options.is_rigid, divided_) &&
      divided_.max_load < result_.max_load;
  // Where the wrap-around rule applies, no pair of leaves is narrower than its blocks.
  const Load bound =
      is_divided ? ComputeTierBounds(view_, commodities, {}, 1).fabric : LowerBound(commodities, 1);
  if (bound < result_.lower_bound) {
    result_.lower_bound = bound;
    result_.proof = Proof::kNone;
  }
  if (!is_divided) return false;
  result_.paths.swap(divided_.paths);
  result_.shares.swap(divided_.shares);
  result_.max_load = divided_.max_load;
  if (result_.max_load == result_.lower_bound) result_.proof = Proof::kDivisible;
  return true;
}

void Assigner::TakeGreedyIfBetter(std::span<const Commodity> commodities) {
  std::vector<std::int32_t> staged = result_.paths;
  const Load most = result_.max_load;
  std::ranges::fill(result_.paths, kNoPath);
  AssignGreedily(commodities, {});
  if (result_.max_load < most) return;
  result_.paths = std::move(staged);
  result_.max_load = most;
}

bool Assigner::CanRepair() const {
  return repair_budget_ > 0 && fixed_.empty() && view_.folded_clos();
}

bool Assigner::Repair(std::span<const Commodity> commodities, const Load& limit) {
  const auto base =
      has_base_ ? std::span<const std::int64_t>(base_) : std::span<const std::int64_t>();
  // The other half is left for higher limits.
  const std::int64_t half = (repair_budget_ + 1) / 2;
  std::int64_t budget = half;
  const bool is_done = ejection_.Repair(commodities, limit, base, budget, result_);
  repair_budget_ -= half - budget;
  if (!is_done) return false;
  loads_ = ComputeLoads(view_, commodities, result_);
  for (std::size_t link = 0; link < base.size(); ++link) loads_[link] += base[link];
  result_.max_load = MaxLoad(loads_);
  return true;
}

bool Assigner::RepairToBound(std::span<const Commodity> commodities) {
  if (!CanRepair() || !staged_.AssignIdeally(commodities, result_)) return false;
  const auto base =
      has_base_ ? std::span<const std::int64_t>(base_) : std::span<const std::int64_t>();
  result_.lower_bound = ComputeTierBounds(view_, commodities, base).fabric;
  if (Repair(commodities, result_.lower_bound) && result_.max_load <= result_.lower_bound) {
    return true;
  }
  std::ranges::fill(result_.paths, kNoPath);
  return false;
}

void Assigner::RepairStages(std::span<const Commodity> commodities, bool is_staged) {
  constexpr int kMostLimits = 4;
  if (!CanRepair()) return;
  const std::vector<std::int32_t> known = result_.paths;
  if (!is_staged && !staged_.AssignIdeally(commodities, result_)) return;
  const std::vector<std::int32_t> start = result_.paths;
  const Load most = result_.max_load;
  const std::int64_t share = kLoadUnit / commodities.front().subflows;
  Load limit = result_.lower_bound;
  for (int tries = 0; tries < kMostLimits && limit < most; ++tries) {
    result_.paths = start;
    if (Repair(commodities, limit) && result_.max_load < most) return;
    limit = NextLoad(view_, limit, share);
  }
  result_.paths = known;
  result_.max_load = most;
}

void Assigner::Occupy(std::span<const Commodity> commodities) {
  occupancy_.Clear();
  if (has_base_) occupancy_.SetBaseLoads(base_);
  subflows_.clear();
  shares_.clear();
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    const Commodity& commodity = commodities[i];
    for (const std::int32_t path : result_.PathsOf(i)) {
      const std::int64_t share = kLoadUnit / commodity.subflows;
      if (IsFixed(subflows_.size())) {
        subflows_.push_back(kNoSubflow);
        shares_.push_back(share);
        continue;
      }
      subflows_.push_back(occupancy_.Add(commodity.source, commodity.destination, share, false));
      shares_.push_back(share);
      occupancy_.Place(subflows_.back(), path);
    }
  }
}

void Assigner::TakePathsFromOccupancy() {
  for (std::size_t entry = 0; entry < subflows_.size(); ++entry) {
    if (subflows_[entry] != kNoSubflow) result_.paths[entry] = occupancy_.PathOf(subflows_[entry]);
  }
}

bool Assigner::RelieveLinksAboveLimit(std::int64_t& steps) {
  constexpr std::size_t kMaxMoves = 64;
  for (std::uint32_t link = 0; link < occupancy_.link_count(); ++link) {
    while (occupancy_.IsAboveLimit(link)) {
      if (steps <= 0 || occupancy_.Relieve(link, {.moves = kMaxMoves}, steps).empty()) return false;
    }
  }
  return true;
}

void Assigner::Improve(std::int64_t& steps) {
  while (result_.max_load > result_.lower_bound) {
    // Fractional base loads make for many rounds, each of which reads all links.
    if (has_base_) steps -= static_cast<std::int64_t>(occupancy_.link_count() / 16);
    occupancy_.SetLimit(result_.max_load, Occupancy::Bound::kBelow);
    if (!RelieveLinksAboveLimit(steps)) return;
    result_.max_load = MaxLoad(occupancy_.Loads());
  }
}

bool Assigner::Shield(std::span<const std::uint32_t> group, std::span<const Commodity> commodities,
                      std::int64_t level, std::int64_t& steps) {
  // Each subflow of the group counts for more than its share, so that a link that is full by this
  // count carries at most `level` whole flows of the group, or fewer and some others.
  const std::vector<std::int64_t> shares = shares_;
  std::vector<std::int32_t> before;
  for (const SubflowId subflow : subflows_) {
    before.push_back(subflow == kNoSubflow ? kNoPath : occupancy_.PathOf(subflow));
  }
  const Load most = result_.max_load;
  for (const std::uint32_t i : group) {
    for (std::uint32_t entry = result_.first[i]; entry < result_.first[i + 1]; ++entry) {
      if (subflows_[entry] == kNoSubflow) continue;
      const Wide share = Wide{kLoadUnit / commodities[i].subflows} * most.numerator /
                         (Wide{most.denominator} * level);
      shares_[entry] = std::max(shares_[entry], static_cast<std::int64_t>(share));
      occupancy_.SetShare(subflows_[entry], shares_[entry]);
    }
  }
  if (RelieveLinksAboveLimit(steps)) return true;
  for (std::size_t entry = 0; entry < subflows_.size(); ++entry) {
    if (subflows_[entry] == kNoSubflow) continue;
    occupancy_.SetShare(subflows_[entry], shares[entry]);
    occupancy_.Place(subflows_[entry], before[entry]);
  }
  shares_ = shares;
  return false;
}

void Assigner::ChooseFairest(std::span<const Commodity> commodities, const AssignOptions& options,
                             std::int64_t& steps) {
  const auto score = [&] {
    steps -= static_cast<std::int64_t>(commodities.size());
    return ComputeScore(commodities, rates_.Predict(commodities, result_, options.base_loads),
                        options.job_weights);
  };
  const Load most = result_.max_load;
  const Load bound = result_.lower_bound;
  std::vector<std::int32_t> best = result_.paths;
  Score best_score = score();
  const auto keep_if_better = [&] {
    Score found = score();
    if (!IsBetter(found, best_score)) return;
    best_score = std::move(found);
    best = result_.paths;
  };

  const auto try_greedy = [&](std::span<const std::uint32_t> order) {
    if (fixed_.empty()) {
      std::fill(result_.paths.begin(), result_.paths.end(), kNoPath);
    } else {
      result_.paths.assign(fixed_.begin(), fixed_.end());
    }
    AssignGreedily(commodities, order);
    return std::exchange(result_.max_load, most) == most;
  };
  if (try_greedy({})) keep_if_better();

  if (CanListPaths(view_, commodities)) {
    result_.paths = best;
    Occupy(commodities);
    occupancy_.SetLimit(most, Occupancy::Bound::kAtMost);
    for (const auto& group : GroupsToShield(commodities, options)) {
      for (std::int64_t level = 1; steps > 0 && Load{level, 1} < most; ++level) {
        if (Shield(group, commodities, level, steps)) break;
      }
    }
    TakePathsFromOccupancy();
    keep_if_better();
  }
  // Greedy in the paper's order wins unless another assignment makes jobs or phases faster. The sum
  // of rates does not count here, as it says little about when jobs end. On more than two tiers, it
  // might load one of them more than stages do.
  const bool has_more_tiers = !view_.clos() && view_.folded_clos();
  if (!has_more_tiers && try_greedy(PaperOrder(commodities))) {
    best_score.total_rate = 0;
    if (!IsBetter(best_score, score())) best = result_.paths;
  }
  result_.paths = std::move(best);
  result_.lower_bound = bound;
}

}  // namespace espalier::controller
