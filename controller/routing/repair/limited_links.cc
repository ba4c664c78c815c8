#include "controller/routing/repair/limited_links.h"

#include <algorithm>

namespace espalier::controller {

void LimitedLinks::Reset(std::span<const Commodity> commodities, const Load& limit,
                         std::span<const std::int64_t> base_loads) {
  __extension__ using Wide = __int128;
  const auto capacities = view_.capacities();
  share_ = kLoadUnit / commodities.front().subflows;
  limits_.resize(capacities.size());
  // Few rates occur, mostly in a row.
  std::int64_t rate = 0;
  std::int64_t units = 0;
  for (std::size_t link = 0; link < capacities.size(); ++link) {
    if (capacities[link] != rate) {
      rate = capacities[link];
      units = static_cast<std::int64_t>(Wide{limit.numerator} * kLoadUnit * rate /
                                        (Wide{limit.denominator} * view_.unit_bps()));
    }
    limits_[link] = units;
  }
  loads_.assign(capacities.size(), 0);
  if (!base_loads.empty()) std::ranges::copy(base_loads, loads_.begin());
  sources_.clear();
  destinations_.clear();
  for (const Commodity& commodity : commodities) {
    sources_.insert(sources_.end(), commodity.subflows, commodity.source);
    destinations_.insert(destinations_.end(), commodity.subflows, commodity.destination);
  }
  most_hops_ = 2 * (view_.folded_clos()->tiers - 1);
  paths_.assign(sources_.size(), kNoPath);
  hops_.assign(sources_.size() * most_hops_, kNone);
  next_on_.assign(hops_.size(), kNone);
  first_on_.assign(capacities.size(), kNone);
  changes_.clear();
}

bool LimitedLinks::PlaceIfRoom(std::uint32_t subflow, std::int32_t path) {
  links_.clear();
  view_.AppendHops(sources_[subflow], destinations_[subflow], path, links_);
  if (!std::ranges::all_of(links_, [&](std::uint32_t link) { return HasRoom(link); })) return false;
  changes_.emplace_back(subflow, kNoPath);
  PutOnLinks(subflow, path);
  return true;
}

void LimitedLinks::Place(std::uint32_t subflow, std::int32_t path) {
  changes_.emplace_back(subflow, kNoPath);
  PutOn(subflow, path);
}

void LimitedLinks::Remove(std::uint32_t subflow) {
  changes_.emplace_back(subflow, paths_[subflow]);
  TakeOff(subflow);
}

void LimitedLinks::Undo(std::size_t mark) {
  while (changes_.size() > mark) {
    const auto [subflow, before] = changes_.back();
    changes_.pop_back();
    if (before == kNoPath) {
      TakeOff(subflow);
    } else {
      PutOn(subflow, before);
    }
  }
}

void LimitedLinks::PutOn(std::uint32_t subflow, std::int32_t path) {
  links_.clear();
  view_.AppendHops(sources_[subflow], destinations_[subflow], path, links_);
  PutOnLinks(subflow, path);
}

void LimitedLinks::PutOnLinks(std::uint32_t subflow, std::int32_t path) {
  paths_[subflow] = path;
  std::uint32_t hop = subflow * most_hops_;
  for (const std::uint32_t link : links_) {
    hops_[hop] = link;
    next_on_[hop] = first_on_[link];
    first_on_[link] = hop++;
    loads_[link] += share_;
  }
  if (links_.size() < most_hops_) hops_[hop] = kNone;
}

void LimitedLinks::TakeOff(std::uint32_t subflow) {
  const std::uint32_t begin = subflow * most_hops_;
  for (std::uint32_t hop = begin; hop < begin + most_hops_ && hops_[hop] != kNone; ++hop) {
    std::uint32_t* at = &first_on_[hops_[hop]];
    while (*at != hop) at = &next_on_[*at];
    *at = next_on_[hop];
    loads_[hops_[hop]] -= share_;
  }
  paths_[subflow] = kNoPath;
  hops_[begin] = kNone;
}

}  // namespace espalier::controller
