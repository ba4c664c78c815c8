#include "controller/routing/model/assignment.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace espalier::controller {
std::uint32_t SubflowNumbers::Take(std::uint32_t subflows) {
  ESPALIER_CHECK(subflows >= 1 && subflows <= kMaxSubflows, "subflows={}", subflows);
  const std::uint64_t first = taken_;
  taken_ += subflows;
  ESPALIER_CHECK(taken_ <= kMaxTotalSubflows, "subflows of all commodities={}, at most {}", taken_,
                 kMaxTotalSubflows);
  return static_cast<std::uint32_t>(first);
}

void Assignment::Clear(std::span<const Commodity> commodities) {
  first.resize(commodities.size() + 1);
  std::uint64_t taken = 0;
  bool is_valid = true;
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    first[i] = static_cast<std::uint32_t>(taken);
    taken += commodities[i].subflows;
    is_valid &= commodities[i].subflows - 1 < kMaxSubflows;
  }
  if (!is_valid || taken > kMaxTotalSubflows) {
    SubflowNumbers numbers;  // aborts, and says why
    for (const Commodity& commodity : commodities) numbers.Take(commodity.subflows);
  }
  first[commodities.size()] = static_cast<std::uint32_t>(taken);
  paths.assign(taken, kNoPath);
  max_load = lower_bound = {};
  shares.clear();
  proof = Proof::kNone;
}

std::string_view ProofText(Proof proof) {
  switch (proof) {
    case Proof::kNone:
      return "";
    case Proof::kTwoTiers:
      return "a two-tier Clos with equal links";
    case Proof::kNotNarrower:
      return "a folded Clos that is not narrower upwards";
    case Proof::kOneHeight:
      return "a folded Clos whose flows all leave their pods or all stay within";
    case Proof::kBundles:
      return "a two-tier Clos of equal bundles";
    case Proof::kDivisible:
      return "a folded Clos whose flows are divided as the least load needs it";
    case Proof::kBoundMet:
      return "the lower bound is met";
  }
  return "";
}

std::vector<std::uint32_t> PaperOrder(std::span<const Commodity> commodities) {
  const auto by_leaves = [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(commodities[a].source, commodities[a].destination) <
           std::pair(commodities[b].source, commodities[b].destination);
  };
  std::vector<std::uint32_t> order(commodities.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, by_leaves);
  std::vector<std::uint32_t> size_of_group(commodities.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && !by_leaves(order[begin], order[end])) ++end;
    for (std::size_t i = begin; i < end; ++i) {
      size_of_group[order[i]] = static_cast<std::uint32_t>(end - begin);
    }
  }
  std::ranges::stable_sort(
      order, [&](std::uint32_t a, std::uint32_t b) { return size_of_group[a] > size_of_group[b]; });
  return order;
}

bool HasSameShares(const Commodity& commodity, std::size_t index, const Assignment& a,
                   const Assignment& b) {
  for (std::size_t subflow = a.first[index]; subflow < a.first[index + 1]; ++subflow) {
    if (a.ShareOf(commodity, subflow) != b.ShareOf(commodity, subflow)) return false;
  }
  return true;
}

std::vector<std::int64_t> ComputeLoads(const FabricView& view,
                                       std::span<const Commodity> commodities,
                                       const Assignment& assignment) {
  std::vector<std::int64_t> loads(view.capacities().size());
  std::vector<std::uint32_t> hops;
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    const Commodity& commodity = commodities[i];
    for (std::size_t subflow = assignment.first[i]; subflow < assignment.first[i + 1]; ++subflow) {
      const std::int32_t path = assignment.paths[subflow];
      if (path == kNoPath) continue;
      hops.clear();
      view.AppendHops(commodity.source, commodity.destination, path, hops);
      const std::int64_t share = assignment.ShareOf(commodity, subflow);
      for (const std::uint32_t link : hops) loads[link] += share;
    }
  }
  return loads;
}

}  // namespace espalier::controller
