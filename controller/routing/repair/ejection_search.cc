#include "controller/routing/repair/ejection_search.h"

#include <algorithm>
#include <limits>

namespace espalier::controller {
namespace {

constexpr std::uint64_t kForbidden = std::numeric_limits<std::uint32_t>::max();
// A subflow that has just been placed is in the way of others at this additional cost.
constexpr std::uint64_t kStays = 1 << 20;
constexpr std::int64_t kWorkOfStep = 10;

}  // namespace

std::uint64_t EjectionSearch::WeightOf(std::uint32_t subflow) const {
  const Standing& standing = standings_[subflow];
  return standing.weight + (standing.stays_until > step_ ? kStays : 0);
}

std::uint32_t EjectionSearch::LightestOn(std::uint32_t link) const {
  std::uint32_t best = LimitedLinks::kNone;
  links_.ForEachOn(link, [&](std::uint32_t subflow) {
    if (best == LimitedLinks::kNone || WeightOf(subflow) < WeightOf(best)) best = subflow;
    return true;
  });
  return best;
}

std::uint64_t EjectionSearch::CostOf(std::uint32_t link) const {
  if (links_.HasRoom(link)) return 0;
  const std::uint32_t lightest = LightestOn(link);
  return lightest == LimitedLinks::kNone ? kForbidden : WeightOf(lightest);
}

void EjectionSearch::Descend(std::uint32_t tier, std::uint32_t label, std::int32_t path,
                             std::uint64_t cost) {
  const fabric::FoldedClos& clos = *view_.folded_clos();
  const auto& block = clos.blocks[clos.Ancestor(from_, tier)];
  const auto& sender = clos.blocks[clos.Ancestor(from_, tier - 1)];
  const auto& receiver = clos.blocks[clos.Ancestor(to_, tier - 1)];
  const std::uint32_t first = label * block.width;
  for (std::uint32_t rank = 0; rank < block.width; ++rank) {
    const std::uint32_t here = first + clos.label_at[block.first_top + first + rank];
    std::uint64_t sum = cost + CostOf(clos.UpLink(sender, here));
    if (sum >= kForbidden || sum > best_cost_) continue;
    sum += CostOf(clos.DownLink(receiver, here));
    if (sum >= kForbidden || sum > best_cost_) continue;
    const std::int32_t next =
        path * static_cast<std::int32_t>(block.width) + static_cast<std::int32_t>(rank);
    if (tier < top_) {
      Descend(tier + 1, here, next, sum);
      continue;
    }
    // Of equal paths each is as likely as the others.
    ties_ = sum < best_cost_ ? 1 : ties_ + 1;
    if (ties_ > 1 && random_() % ties_ != 0) continue;
    best_cost_ = sum;
    best_path_ = next;
  }
}

bool EjectionSearch::PlaceByForce(std::uint32_t subflow) {
  const fabric::FoldedClos& clos = *view_.folded_clos();
  from_ = view_.FoldedLeaf(links_.SourceOf(subflow));
  to_ = view_.FoldedLeaf(links_.DestinationOf(subflow));
  top_ = clos.blocks[clos.CommonBlock(from_, to_)].tier;
  best_cost_ = kForbidden;
  best_path_ = kNoPath;
  ties_ = 0;
  Descend(1, 0, 0, 0);
  if (best_path_ == kNoPath) return false;
  std::vector<std::uint32_t> links;
  view_.AppendHops(links_.SourceOf(subflow), links_.DestinationOf(subflow), best_path_, links);
  for (const std::uint32_t link : links) {
    while (!links_.HasRoom(link)) {
      const std::uint32_t other = LightestOn(link);
      if (other == LimitedLinks::kNone) return false;
      ++standings_[other].weight;
      links_.Remove(other);
      waiting_.push_back(other);
    }
  }
  links_.Place(subflow, best_path_);
  standings_[subflow].stays_until = step_ + 4 + static_cast<std::int64_t>(random_() % 6);
  return true;
}

bool EjectionSearch::Repair(std::span<const Commodity> commodities, const Load& limit,
                            std::span<const std::int64_t> base_loads, std::int64_t& budget,
                            Assignment& result) {
  step_ = 0;
  random_.seed(1);
  waiting_.clear();
  links_.Reset(commodities, limit, base_loads);
  standings_.assign(links_.size(), {});
  for (std::uint32_t subflow = 0; subflow < links_.size(); ++subflow) {
    if (links_.SourceOf(subflow) == links_.DestinationOf(subflow)) continue;
    const std::int32_t path = result.paths[subflow];
    if (path == kNoPath || !links_.PlaceIfRoom(subflow, path)) waiting_.push_back(subflow);
  }
  while (!waiting_.empty()) {
    const std::uint32_t subflow = waiting_.back();
    waiting_.pop_back();
    links_.Forget();
    const std::int32_t path = labels_.LeastLoaded(links_.loads(), links_.SourceOf(subflow),
                                                  links_.DestinationOf(subflow));
    if (path == kNoPath) continue;  // unroutable
    ++step_;
    budget -= kWorkOfStep + chains_.TakeWork();
    if (budget < 0) return false;
    if (links_.PlaceIfRoom(subflow, path) || chains_.Insert(subflow)) continue;
    if (!PlaceByForce(subflow)) return false;
  }
  for (std::uint32_t subflow = 0; subflow < links_.size(); ++subflow) {
    result.paths[subflow] = links_.PathOf(subflow);
  }
  return true;
}

}  // namespace espalier::controller
