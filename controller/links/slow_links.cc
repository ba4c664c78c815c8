#include "controller/links/slow_links.h"

#include <algorithm>
#include <utility>

namespace espalier::controller {
namespace {

constexpr std::uint32_t kMaxHoldDoublings = 16;

fabric::LinkId LinkOf(std::size_t direction) {
  return fabric::DirectedLink::FromIndex(direction).link;
}

bool Uses(const PathQuality::Judged& judged, fabric::LinkId link) {
  return std::ranges::any_of(judged.sample.FabricLinks(),
                             [&](std::uint32_t direction) { return LinkOf(direction) == link; });
}

}  // namespace

SlowLinks::SlowLinks(std::vector<std::uint32_t> tiers, TimePoint now,
                     const SlowLinksOptions& options)
    : tiers_(std::move(tiers)),
      options_(options),
      moves_(options.moves_per_second, options.burst, now) {}

void SlowLinks::Count(std::span<const PathQuality::Judged* const> samples) {
  directions_.assign(2 * tiers_.size(), {});
  left_paths_ = 0;
  for (const PathQuality::Judged* judged : samples) {
    if (judged->accuses && judged->is_left) ++left_paths_;
    for (const std::uint32_t index : judged->sample.FabricLinks()) {
      Direction& direction = directions_[index];
      ++direction.all;
      if (!judged->accuses) continue;
      ++direction.bad;
      (judged->is_left ? direction.left : direction.measured) += judged->bad_in_a_row;
      if (judged->is_left) ++direction.left_paths;
      if (judged->bad_in_a_row <= direction.longest) continue;
      direction.longest = judged->bad_in_a_row;
      direction.worst = judged;
    }
  }
}

bool SlowLinks::IsEnough(const Direction& here, const Direction& back) const {
  const int measured = here.measured + back.measured;
  const int all = measured + here.left + back.left;
  const bool explains_the_left = static_cast<double>(here.left_paths + back.left_paths) >=
                                 options_.left_fraction * static_cast<double>(left_paths_);
  const bool has_evidence =
      measured >= options_.evidence ||
      (all >= options_.evidence && here.bad + back.bad >= 2 && explains_the_left);
  return has_evidence && std::max(here.longest, back.longest) >= 2 && IsBad(here);
}

std::optional<std::size_t> SlowLinks::Blame(
    std::span<const PathQuality::Judged* const> accusers) const {
  // The other direction of a bad one, if it is bad, too.
  constexpr Direction kNone;
  const auto opposite = [&](std::size_t index) -> const Direction& {
    const Direction& back = directions_[index ^ 1U];
    return IsBad(back) ? back : kNone;
  };
  std::optional<std::size_t> blamed;
  for (const PathQuality::Judged* accuser : accusers) {
    for (const std::uint32_t index : accuser->sample.FabricLinks()) {
      const Direction& here = directions_[index];
      const Direction& back = opposite(index);
      if (!IsEnough(here, back)) continue;
      if (!blamed) {
        blamed = index;
        continue;
      }
      // Parts are compared without division: here.bad / here.all > best.bad / best.all.
      const Direction& best = directions_[*blamed];
      const std::size_t part = here.bad * best.all;
      const std::size_t best_part = best.bad * here.all;
      const std::size_t bad = here.bad + back.bad;
      const std::size_t best_bad = best.bad + opposite(*blamed).bad;
      const bool is_worse = part != best_part ? part > best_part
                            : bad != best_bad ? bad > best_bad
                                              : index < *blamed;
      if (is_worse) blamed = index;
    }
  }
  return blamed;
}

bool SlowLinks::HasRoom(fabric::LinkId link) const {
  std::size_t slow = 0;
  std::size_t slow_of_tier = 0;
  for (const auto& [other, entry] : links_) {
    if (!entry.is_slow) continue;
    ++slow;
    slow_of_tier += tiers_[other.Index()] == tiers_[link.Index()] ? 1 : 0;
  }
  const auto size = static_cast<double>(std::ranges::count(tiers_, tiers_[link.Index()]));
  const auto most_of_tier =
      std::max<std::size_t>(1, static_cast<std::size_t>(options_.max_tier_fraction * size));
  return slow < options_.max_links && slow_of_tier < most_of_tier;
}

bool SlowLinks::HasGoodSiblings(fabric::LinkId link) const {
  std::size_t good = 0;
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    const fabric::LinkId other(static_cast<std::int32_t>(i));
    if (tiers_[i] != tiers_[link.Index()] || other == link) continue;
    const Direction& there = directions_[2 * i];
    const Direction& back = directions_[2 * i + 1];
    const std::size_t all = there.all + back.all;
    good += all > 0 && 2 * (there.bad + back.bad) <= all ? 1 : 0;
  }
  return good >= options_.siblings;
}

SlowLinks::Change SlowLinks::GoSlow(fabric::LinkId link, const PathQuality::Judged& worst,
                                    TimePoint now) {
  Entry& entry = links_[link];
  const bool again = entry.last_change != TimePoint{} && now - entry.last_change < options_.calm;
  entry.relapses = again ? entry.relapses + 1 : 0;
  const Duration hold =
      std::min(options_.hold * (std::int64_t{1} << std::min(entry.relapses, kMaxHoldDoublings)),
               options_.longest);
  entry.is_slow = true;
  entry.until = now + hold;
  entry.last_change = now;
  return {.link = link, .is_slow = true, .signs = worst.signs, .hold = hold};
}

std::vector<SlowLinks::Change> SlowLinks::Update(
    std::span<const PathQuality::Judged* const> samples,
    const std::function<std::size_t(fabric::LinkId)>& flows_on, TimePoint now) {
  std::vector<Change> changes;
  for (auto& [link, entry] : links_) {
    if (!entry.is_slow || now < entry.until) continue;
    entry.is_slow = false;
    entry.last_change = now;
    changes.push_back({.link = link});
  }
  std::erase_if(links_, [&](const auto& link) {
    return !link.second.is_slow && now - link.second.last_change >= options_.calm;
  });
  // Subflows that still wait for a port of another path are explained.
  std::vector<const PathQuality::Judged*> left;
  for (const PathQuality::Judged* judged : samples) {
    const bool is_explained = std::ranges::any_of(
        judged->sample.FabricLinks(), [&](std::uint32_t index) { return IsSlow(LinkOf(index)); });
    if (!is_explained) left.push_back(judged);
  }
  const auto accuses = [](const PathQuality::Judged* judged) { return judged->accuses; };
  while (std::ranges::any_of(left, accuses)) {
    Count(left);
    std::vector<const PathQuality::Judged*> accusers;
    std::ranges::copy_if(left, std::back_inserter(accusers), accuses);
    const auto blamed = Blame(accusers);
    if (!blamed) break;
    const fabric::LinkId link = LinkOf(*blamed);
    if (!HasRoom(link) || !HasGoodSiblings(link) || moves_.Level(now) <= 0) {
      ++refused_;
      break;
    }
    changes.push_back(GoSlow(link, *directions_[*blamed].worst, now));
    moves_.Take(static_cast<double>(flows_on(link)), now);
    std::erase_if(left, [&](const PathQuality::Judged* judged) { return Uses(*judged, link); });
  }
  return changes;
}

}  // namespace espalier::controller
