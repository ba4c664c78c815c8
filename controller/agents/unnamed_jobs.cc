#include "controller/agents/unnamed_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace espalier::controller {
namespace {

// Sets of numbers (union-find with path halving; the lower number represents its set).
class Components {
 public:
  std::size_t Add() {
    parents_.push_back(parents_.size());
    return parents_.size() - 1;
  }
  std::size_t Find(std::size_t one) {
    while (parents_[one] != one) one = parents_[one] = parents_[parents_[one]];
    return one;
  }
  void Join(std::size_t one, std::size_t other) {
    one = Find(one);
    other = Find(other);
    parents_[std::max(one, other)] = std::min(one, other);
  }

 private:
  std::vector<std::size_t> parents_;
};

}  // namespace

void UnnamedJobs::HandleChanges(std::span<const MessageChange> changes) {
  for (const MessageChange& change : changes) {
    const Flow& flow = state_.flows.At(change.slot);
    if (flow.has_job_name || !change.is_busy || change.was_busy) continue;
    groups_.HandleStart(change.slot, static_cast<std::uint32_t>(flow.agent.Index()), change.at);
    has_starts_ = true;
  }
}

void UnnamedJobs::HandleClosed(FlowSlot slot) {
  groups_.Forget(slot);
  has_changed_ = true;
}

void UnnamedJobs::Update(TimePoint now) {
  if ((!has_changed_ && !has_starts_) || now < next_) return;
  next_ = now + kMinInterval;
  if (has_changed_) FindComponents();
  const bool is_regrouped = groups_.Look(members_);
  if (has_changed_ || is_regrouped) Rename();
  has_changed_ = has_starts_ = false;
  if (groups_.splits() == splits_told_) return;
  state_.history.RecordOf("jobs", now, "unnamed_jobs_split",
                          fmt::format("jobs={} reason=\"their flows have no common rounds\"",
                                      groups_.splits() - splits_told_));
  splits_told_ = groups_.splits();
}

void UnnamedJobs::FindComponents() {
  members_.clear();
  names_.clear();
  std::map<std::string, std::size_t> numbers;  // of NICs
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    if (flow.has_job_name || flow.subflows.empty()) continue;
    members_.push_back({.flow = slot});
    numbers.emplace(state_.topology.node(flow.key.source).id, 0);
    numbers.emplace(state_.topology.node(flow.key.destination).id, 0);
  }
  Components components;
  for (auto& [name, number] : numbers) {
    number = components.Add();
    names_.push_back(name);
  }
  const auto number_of = [&](fabric::NodeId nic) {
    return numbers.at(state_.topology.node(nic).id);
  };
  for (const RoundGroups::Member& member : members_) {
    const Flow& flow = state_.flows.At(member.flow);
    components.Join(number_of(flow.key.source), number_of(flow.key.destination));
  }
  for (RoundGroups::Member& member : members_) {
    const Flow& flow = state_.flows.At(member.flow);
    member.component = static_cast<std::uint32_t>(components.Find(number_of(flow.key.source)));
  }
}

std::optional<UnnamedJobs::Group> UnnamedJobs::GroupOf(FlowSlot slot,
                                                       const std::set<Group>& of_component,
                                                       const GroupsAt& at_nics) const {
  if (const auto own = groups_.GroupOf(slot)) return own;
  const fabric::PortKey& key = state_.flows.At(slot).key;
  std::optional<Group> best;
  int best_nics = -1;
  for (const Group group : of_component) {
    int nics = 0;
    for (const fabric::NodeId nic : {key.source, key.destination}) {
      const auto found = at_nics.find(nic);
      if (found != at_nics.end() && found->second.contains(group)) ++nics;
    }
    if (nics > best_nics) best = group;
    best_nics = std::max(best_nics, nics);
  }
  return best;
}

void UnnamedJobs::Rename() {
  std::map<std::uint32_t, std::set<Group>> of_components;
  GroupsAt at_nics;
  for (const RoundGroups::Member& member : members_) {
    const auto group = groups_.GroupOf(member.flow);
    if (!group) continue;
    const fabric::PortKey& key = state_.flows.At(member.flow).key;
    of_components[member.component].insert(*group);
    at_nics[key.source].insert(*group);
    at_nics[key.destination].insert(*group);
  }
  for (const RoundGroups::Member& member : members_) {
    const auto group = GroupOf(member.flow, of_components[member.component], at_nics);
    const std::uint32_t number = group ? groups_.NumberOf(*group) : 1;
    std::string job = kPrefix + names_[member.component];
    if (number > 1) job += fmt::format("{}{}", kPrefix, number);
    const Flow& flow = state_.flows.At(member.flow);
    if (state_.flows.JobName(flow.job) != job) {
      rename_(member.flow, state_.flows.JobIndex(job, flow.agent));
    }
  }
}

}  // namespace espalier::controller
