#include "controller/rounds/sender_groups.h"

#include <algorithm>
#include <bit>

namespace espalier::controller {
namespace {

using Place = BurstLog::Place;

// Whether the leader has begun to send while the flow paused before this burst.
bool SendsAlone(const BurstLog& leader, const BurstLog& bursts, std::size_t age,
                Duration tolerance) {
  return age + 1 < bursts.size() && leader.BeginsBetween(bursts.At(age + 1).ended + tolerance,
                                                         bursts.At(age).began - tolerance);
}

bool IsSteady(const Place& place, Duration offset) {
  return place.is_beside && std::chrono::abs(place.offset - offset) <= place.tolerance;
}

// How the last complete bursts of a flow lie beside those of a leader.
struct Fit {
  std::size_t together = 0;  // of the last kBurstsToJoin, burst for burst, with one offset
  std::size_t beside = 0;    // of all: begins beside a burst
  std::size_t inside = 0;    // of all: beside a burst or within one
  std::size_t alone = 0;     // of all: the leader sends alone before it
  std::size_t looked = 0;
  Duration offset = Duration::max();  // of the latest
};

Fit FitOf(const BurstLog& bursts, const BurstLog& leader) {
  Fit fit;
  std::optional<std::pair<std::size_t, Place>> latest;
  for (std::size_t age = 1; age < bursts.size(); ++age) {
    const std::optional<Place> place = leader.PlaceOf(bursts.At(age));
    if (!place) return {};
    ++fit.looked;
    fit.beside += place->is_beside ? 1U : 0U;
    fit.alone += SendsAlone(leader, bursts, age, place->tolerance) ? 1U : 0U;
    fit.inside += place->is_beside || place->is_within ? 1U : 0U;
    if (!place->is_beside || age > SenderGroups::kBurstsToJoin) continue;
    if (!latest) {
      latest = {age, *place};
      fit.offset = std::chrono::abs(place->offset);
    }
    const bool is_next = place->age - latest->second.age == age - latest->first;
    if (is_next && IsSteady(*place, latest->second.offset)) ++fit.together;
  }
  return fit;
}

bool IsInStep(const Fit& fit) {
  if (fit.together + 1 >= SenderGroups::kBurstsToJoin) return true;
  return fit.looked + 1 == SenderGroups::kOfFlow && fit.inside == fit.looked && fit.beside > 0 &&
         fit.alone == 0;
}

}  // namespace

SenderGroups::Group SenderGroups::RootOf(Group group) const {
  while (groups_[group].merged_into != group) group = groups_[group].merged_into;
  return group;
}

SenderGroups::Group SenderGroups::Add(std::optional<Group> component) {
  ++live_;
  const auto free = component ? std::ranges::find(groups_, true, &Known::is_free) : groups_.end();
  const auto group = static_cast<Group>(free - groups_.begin());
  if (free == groups_.end()) groups_.emplace_back();
  groups_[group] = {.merged_into = group, .component = component.value_or(group)};
  return group;
}

void SenderGroups::Unite(Group from, Group into, Merged& merged) {
  groups_[into].flows += groups_[from].flows;
  groups_[from] = {.merged_into = into, .component = groups_[from].component};
  merged.emplace_back(from, into);
  --live_;
}

bool SenderGroups::IsOneOf(Group group, Group component) const {
  const Known& known = groups_[group];
  return known.merged_into == group && !known.is_free && RootOf(known.component) == component;
}

SenderGroups::Merged SenderGroups::Join(Member& member, std::span<const std::size_t> nics) {
  Merged merged;
  std::optional<Group> component;
  for (const std::size_t nic : nics) {
    const auto found = of_nic_.find(nic);
    if (found == of_nic_.end() && !is_one_) continue;
    const Group root = RootOf(is_one_ ? 0 : found->second);
    if (component && *component != root) Unite(root, *component, merged);
    if (!component) component = root;
  }
  if (!component) component = Add(std::nullopt);
  for (const std::size_t nic : nics) of_nic_[nic] = *component;
  if (live_ > kMaxGroups) {
    for (Group other = 0; other < groups_.size(); ++other) {
      const Known& known = groups_[other];
      if (other != *component && known.merged_into == other && !known.is_free) {
        Unite(other, *component, merged);
      }
    }
    is_one_ = true;
  }
  bool has_several = false;
  for (Group other = 0; other < groups_.size() && !has_several; ++other) {
    has_several = other != *component && IsOneOf(other, *component);
  }
  member = {.id = ++last_id_, .group = *component, .component = *component};
  if (has_several) {
    member.group = kOutside;
  } else {
    ++groups_[*component].flows;
  }
  return merged;
}

void SenderGroups::Leave(Member& member) {
  if (member.id != 0 && member.group != kOutside) {
    const Group group = RootOf(member.group);
    Known& known = groups_[group];
    if (known.leader == member.id) known.leader = 0;
    known.flows -= std::min(known.flows, 1U);
    const bool is_first = RootOf(known.component) == group;
    if (known.flows == 0 && !is_first) {
      known.is_free = true;
      --live_;
    }
  }
  member = {};
}

void SenderGroups::Lead(Known& group, const Member& member) {
  group.leader = member.id;
  group.bursts = member.bursts.Kept(kOfLeader);
  group.in_step = 0;
}

SenderGroups::Begun SenderGroups::Begin(Member& member, TimePoint at) {
  Begun begun;
  const bool is_burst = member.bursts.Begin(at);
  if (member.id == 0 || is_one_) {
    if (member.group == kOutside) member.group = 0;
    return begun;
  }
  if (member.group == kOutside) {
    if (is_burst) begun.founded = Seek(member);
    return begun;
  }
  const Group group = RootOf(member.group);
  Known& known = groups_[group];
  if (known.leader == member.id) {
    known.bursts.Begin(at);
    if (is_burst) CompareLeaders(group, begun.merged);
    return begun;
  }
  if (!is_burst) return begun;
  // A leader that has sent nothing for so long says nothing.
  const bool is_silent = member.bursts.size() == kOfFlow && known.bursts.size() > 0 &&
                         known.bursts.At(0).began < member.bursts.At(kOfFlow - 1).began;
  if (known.leader == 0 || is_silent) {
    Lead(known, member);
    return begun;
  }
  if (member.bursts.size() < 2 || !IsOutOfStep(member, known)) return begun;
  begun.left = group;
  const Group component = RootOf(known.component);
  const std::uint64_t id = member.id;
  BurstLog bursts = std::move(member.bursts);
  Leave(member);
  member = {.id = id, .group = kOutside, .component = component, .bursts = std::move(bursts)};
  begun.founded = Seek(member);
  return begun;
}

void SenderGroups::End(Member& member, TimePoint at) {
  member.bursts.End(at);
  if (member.id == 0 || member.group == kOutside) return;
  Known& known = groups_[RootOf(member.group)];
  if (known.leader == member.id) known.bursts.End(at);
}

// Counts bursts out of step, less those in step. True: they are too many.
bool SenderGroups::IsOutOfStep(Member& member, const Known& group) const {
  const std::optional<Place> place = group.bursts.PlaceOf(member.bursts.At(1));
  if (!place) return false;
  const bool is_together = std::chrono::abs(place->offset) <= place->tolerance;
  const bool is_first = place->is_beside && !member.offset;
  const bool is_steady = member.offset && IsSteady(*place, *member.offset);
  if (place->is_beside) member.offset = place->offset;
  const bool is_alone = SendsAlone(group.bursts, member.bursts, 1, place->tolerance);
  if (!is_alone && (is_together || is_first || is_steady)) {
    member.misses = std::max(0, member.misses - 1);
    return false;
  }
  if (!is_alone && place->is_within) return false;
  return ++member.misses >= kMisses;
}

// Finds the group of the flow's component with which it is in step, with the least offset. It is
// apart if its bursts lie neither beside nor within those of any group.
std::optional<SenderGroups::Group> SenderGroups::Find(const Member& member, bool& is_apart) const {
  const Group component = RootOf(member.component);
  std::optional<Group> best;
  Duration offset{};
  is_apart = true;
  for (Group group = 0; group < groups_.size(); ++group) {
    if (!IsOneOf(group, component) || groups_[group].leader == 0) continue;
    const Fit fit = FitOf(member.bursts, groups_[group].bursts);
    const bool may_belong = 3 * fit.inside >= 2 * fit.looked && 3 * fit.alone < fit.looked;
    if (may_belong) is_apart = false;
    if (!IsInStep(fit) || (best && offset <= fit.offset)) continue;
    best = group;
    offset = fit.offset;
  }
  return best;
}

std::optional<SenderGroups::Group> SenderGroups::Seek(Member& member) {
  ++member.outside;
  if (member.outside > 2 * kBurstsToFound && !std::has_single_bit(member.outside)) {
    return std::nullopt;
  }
  bool is_apart = true;
  const std::optional<Group> found = Find(member, is_apart);
  const bool founds = !found && is_apart && member.outside >= kBurstsToFound && live_ < kMaxGroups;
  if (!found && !founds) return std::nullopt;
  member.group = found ? *found : Add(RootOf(member.component));
  Known& known = groups_[member.group];
  if (founds) Lead(known, member);
  ++known.flows;
  member.outside = 0;
  member.misses = 0;
  member.offset.reset();
  return founds ? std::optional(member.group) : std::nullopt;
}

void SenderGroups::CompareLeaders(Group group, Merged& merged) {
  Known& known = groups_[group];
  const Group component = RootOf(known.component);
  if (component == group || known.bursts.size() < 2) return;
  const Burst& burst = known.bursts.At(1);
  if (known.in_step > 0 && IsOneOf(known.beside, component)) {
    const auto place = groups_[known.beside].bursts.PlaceOf(burst);
    known.in_step = place && IsSteady(*place, known.offset) ? known.in_step + 1 : 0;
    if (known.in_step >= kBurstsToUnite) Unite(group, known.beside, merged);
    return;
  }
  known.in_step = 0;
  for (Group other = 0; other < groups_.size(); ++other) {
    if (other == group || !IsOneOf(other, component) || groups_[other].leader == 0) continue;
    const auto place = groups_[other].bursts.PlaceOf(burst);
    if (!place || std::chrono::abs(place->offset) > place->tolerance) continue;
    known.beside = other;
    known.in_step = 1;
    known.offset = place->offset;
    return;
  }
}

}  // namespace espalier::controller
