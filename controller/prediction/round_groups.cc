#include "controller/prediction/round_groups.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "controller/prediction/common_rounds.h"

namespace espalier::controller {
namespace {

constexpr std::size_t kNewStarts = kStartsCompared / 2;  // after which a flow is looked at again

Duration MeanGap(const std::vector<TimePoint>& starts) {
  const auto gaps = static_cast<std::int64_t>(starts.size()) - 1;
  return gaps < 1 ? Duration{} : (starts.back() - starts.front()) / gaps;
}
constexpr int kLooksToMove = 2;   // in a row that must find the flow apart from its group
constexpr int kLooksToFound = 4;  // the same, and from all other groups

}  // namespace

void RoundGroups::HandleStart(FlowSlot slot, std::uint32_t host, TimePoint at) {
  auto found = flows_.find(slot);
  if (found == flows_.end()) {
    std::size_t& followed = of_host_[host];
    if (followed >= kMaxFlowsOfHost || flows_.size() >= kMaxFlows) return;
    ++followed;
    found = flows_.emplace(slot, Followed{.host = host}).first;
  }
  Followed& flow = found->second;
  if (!flow.starts.empty() && at <= flow.starts.back()) return;
  if (flow.starts.size() >= kStartsKept) {
    flow.starts.erase(flow.starts.begin(),
                      flow.starts.begin() + static_cast<std::ptrdiff_t>(kStartsKept / 2));
  }
  flow.starts.push_back(at);
  ++flow.new_starts;
}

void RoundGroups::Forget(FlowSlot slot) {
  const auto found = flows_.find(slot);
  if (found == flows_.end()) return;
  Leave(found->second, slot);
  const auto of_host = of_host_.find(found->second.host);
  if (--of_host->second == 0) of_host_.erase(of_host);
  flows_.erase(found);
}

std::optional<RoundGroups::Group> RoundGroups::GroupOf(FlowSlot slot) const {
  const auto found = flows_.find(slot);
  return found == flows_.end() ? std::nullopt : found->second.group;
}

bool RoundGroups::Look(std::span<const Member> members) {
  const std::uint64_t limit = comparisons_ + kMaxComparisons;
  std::map<std::uint32_t, Component> components = ComponentsOf(members);
  bool has_changed = false;
  for (auto& [number, component] : components) {
    has_changed = Unite(component, limit) || has_changed;
    has_changed = Number(component) || has_changed;
  }
  std::vector<std::tuple<Duration, FlowSlot, std::uint32_t>> due;  // the shorter gaps first
  for (const Member& member : members) {
    const auto found = flows_.find(member.flow);
    if (found == flows_.end()) continue;
    const Followed& flow = found->second;
    if (flow.new_starts < kNewStarts || flow.starts.size() <= kStartsCompared) continue;
    due.emplace_back(MeanGap(flow.starts), member.flow, member.component);
  }
  std::ranges::sort(due);
  while (!due.empty() && comparisons_ < limit) {
    const auto& [gap, slot, component] = due.back();
    has_changed = LookAt(slot, components[component]) || has_changed;
    due.pop_back();
  }
  return has_changed;
}

std::map<std::uint32_t, RoundGroups::Component> RoundGroups::ComponentsOf(
    std::span<const Member> members) {
  std::map<std::uint32_t, std::set<Group>> sets;
  std::map<Group, FlowSlot> most;  // of groups whose first flow was closed
  for (const Member& member : members) {
    const auto found = flows_.find(member.flow);
    if (found == flows_.end() || !found->second.group) continue;
    const Group group = *found->second.group;
    sets[member.component].insert(group);
    if (groups_.at(group).first) continue;
    const auto best = most.emplace(group, member.flow).first;
    if (found->second.starts.size() > flows_.at(best->second).starts.size()) {
      best->second = member.flow;
    }
  }
  for (const auto& [group, flow] : most) groups_.at(group).first = flow;
  std::map<std::uint32_t, Component> components;
  for (const auto& [number, groups] : sets) {
    components[number] = {groups.begin(), groups.end()};
  }
  return components;
}

bool RoundGroups::Unite(Component& component, std::uint64_t limit) {
  bool has_changed = false;
  for (std::size_t i = 0; i < std::min(component.size(), kMaxGroups); ++i) {
    for (std::size_t j = i + 1; j < std::min(component.size(), kMaxGroups);) {
      Known& younger = groups_.at(component[j]);
      if (std::ranges::count(younger.apart, component[i]) > 0) {
        ++j;
        continue;
      }
      if (comparisons_ >= limit) return has_changed;
      if (!younger.first || Compare(*younger.first, component[i]) == Rounds::kApart) {
        younger.apart.push_back(component[i]);
        ++j;
        continue;
      }
      for (auto& [slot, flow] : flows_) {
        if (flow.group == component[j]) Join(slot, flow, component[i]);
      }
      component.erase(component.begin() + static_cast<std::ptrdiff_t>(j));
      has_changed = true;
    }
  }
  return has_changed;
}

bool RoundGroups::Number(const Component& component) {
  std::set<std::uint32_t> used;
  bool has_changed = false;
  for (const Group group : component) {
    std::uint32_t& number = groups_.at(group).number;
    if (used.insert(number).second) continue;
    for (number = 1; !used.insert(number).second;) ++number;
    has_changed = true;
  }
  return has_changed;
}

bool RoundGroups::LookAt(FlowSlot slot, Component& component) {
  Followed& flow = flows_.at(slot);
  flow.new_starts = 0;
  const std::optional<Group> own = flow.group;
  if (own && groups_.at(*own).first == slot) return false;
  if (own && Compare(slot, *own) != Rounds::kApart) {
    flow.looks_apart = 0;
    return false;
  }
  ++flow.looks_apart;
  if (own && flow.looks_apart < kLooksToMove) return false;
  const std::size_t compared = std::min(component.size(), kMaxGroups);
  for (std::size_t i = 0; i < compared; ++i) {
    if (component[i] == own) continue;
    const Rounds rounds = Compare(slot, component[i]);
    if (rounds == Rounds::kCommon) {
      Join(slot, flow, component[i]);
      PreferAsFirst(slot, component[i]);
      return true;
    }
    if (rounds == Rounds::kUnknown) flow.looks_apart = 0;
  }
  const bool is_clear = component.empty() || flow.looks_apart >= kLooksToFound;
  if (!is_clear || component.size() >= kMaxGroups || !RegularGap(flow.starts)) return false;
  if (!component.empty()) ++splits_;
  const Group group(next_++);
  groups_[group] = {.first = slot, .number = 1, .apart = component};
  Join(slot, flow, group);
  component.push_back(group);
  Number(component);
  return true;
}

// Flows that start several times in each round have one place in it for a flow that starts once.
void RoundGroups::PreferAsFirst(FlowSlot slot, Group group) {
  std::optional<FlowSlot>& first = groups_.at(group).first;
  if (!first) return;
  if (2 * MeanGap(flows_.at(slot).starts) > 3 * MeanGap(flows_.at(*first).starts)) first = slot;
}

Rounds RoundGroups::Compare(FlowSlot slot, Group group) {
  const std::optional<FlowSlot> first = groups_.at(group).first;
  if (!first) return Rounds::kUnknown;
  ++comparisons_;
  return CompareRounds(flows_.at(slot).starts, flows_.at(*first).starts);
}

void RoundGroups::Join(FlowSlot slot, Followed& flow, Group group) {
  Leave(flow, slot);
  flow.group = group;
  flow.looks_apart = 0;
  ++groups_.at(group).flows;
}

void RoundGroups::Leave(Followed& flow, FlowSlot slot) {
  if (!flow.group) return;
  const auto group = groups_.find(*flow.group);
  flow.group.reset();
  if (group->second.first == slot) group->second.first.reset();
  if (--group->second.flows == 0) groups_.erase(group);
}

}  // namespace espalier::controller
