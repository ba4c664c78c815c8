#include "agent/flows/flow_groups.h"

#include <algorithm>
#include <utility>

namespace espalier::agent {

// Problem: a library spreads each message over k queue pairs, so k flows are busy at once and each
// carries a k-th. Counted as k flows they would crowd out others, and two of them might share a
// path while another one is free.
// Idea: the controller knows flows of k subflows. So a group is reported as such a flow, under the
// id of one of its members, and a pushed set of k paths is dealt out to the members. A flow's
// number of subflows is fixed while it is open, so a group that grows is reported as ended and
// opened again under the id of its newest member, on the ports that its members have. Invariant: a
// queue pair is in exactly one group or pending; the members of a group are open, in the order in
// which they opened; a group's id is never used again. Cost: a sort by key, and one search per
// member, at each look.

FlowGroups::Key FlowGroups::KeyOf(const FlowSample& flow) {
  return {flow.id.value() >> 32U, flow.job,      flow.source,
          flow.destination,       flow.protocol, flow.destination_port};
}

bool FlowGroups::IsGrouped(const FlowSample& flow) {
  return flow.local_qpn != 0 && flow.max_paths == 1 && flow.movable && !flow.announced.is_alone;
}

std::span<const FlowSample> FlowGroups::Flows() {
  samples_.clear();
  std::map<Key, std::vector<const FlowSample*>> flows;
  for (const FlowSample& flow : source_.Flows()) {
    if (IsGrouped(flow)) {
      flows[KeyOf(flow)].push_back(&flow);
    } else {
      samples_.push_back(flow);
    }
  }
  for (auto place = places_.begin(); place != places_.end();) {
    if (flows.contains(place->first)) {
      ++place;
      continue;
    }
    for (const Group& group : place->second.groups) keys_.erase(group.id);
    place = places_.erase(place);
  }
  for (const auto& [key, members] : flows) {
    Place& place = places_[key];
    for (const Group& group : place.groups) keys_.erase(group.id);
    Update(place, members);
    for (Group& group : place.groups) {
      keys_.emplace(group.id, key);
      samples_.push_back(Combine(group, members));
    }
  }
  std::sort(samples_.begin(), samples_.end(),
            [](const FlowSample& a, const FlowSample& b) { return a.id < b.id; });
  return samples_;
}

void FlowGroups::Update(Place& place, std::span<const FlowSample* const> flows) {
  RemoveEnded(place, flows);
  const auto is_known = [&](wire::LocalFlowId id) {
    const auto is_in = [&](const Group& group) {
      return std::ranges::find(group.members, id, &Member::id) != group.members.end();
    };
    return std::ranges::find(place.pending.flows, id) != place.pending.flows.end() ||
           std::ranges::any_of(place.groups, is_in);
  };
  const TimePoint now = loop_.Now();
  for (const FlowSample* flow : flows) {
    if (is_known(flow->id)) continue;
    if (place.pending.flows.empty()) place.pending.first = now;
    place.pending.flows.push_back(flow->id);
    place.pending.latest = now;
  }
  if (place.pending.flows.empty()) return;
  const TimePoint due =
      std::min(place.pending.latest + options_.settle, place.pending.first + options_.max_settle);
  if (now >= due) {
    Form(place);
  } else {
    ScheduleChange(due - now);
  }
}

void FlowGroups::RemoveEnded(Place& place, std::span<const FlowSample* const> flows) {
  const auto is_open = [&](wire::LocalFlowId id) {
    return std::ranges::any_of(flows, [&](const FlowSample* flow) { return flow->id == id; });
  };
  std::erase_if(place.pending.flows, [&](wire::LocalFlowId id) { return !is_open(id); });
  for (Group& group : place.groups) {
    std::erase_if(group.members, [&](const Member& member) {
      if (is_open(member.id)) return false;
      group.departed_sent_bytes += member.sent_bytes;
      group.departed_retries += member.retries;
      return true;
    });
  }
  std::erase_if(place.groups, [](const Group& group) { return group.members.empty(); });
}

void FlowGroups::Form(Place& place) {
  std::vector<wire::LocalFlowId> joining = std::exchange(place.pending, {}).flows;
  while (!joining.empty()) {
    // The last group takes what it has room for. It becomes a new flow.
    if (place.groups.empty() || place.groups.back().members.size() >= options_.max_members) {
      place.groups.emplace_back();
    }
    Group& group = place.groups.back();
    const std::size_t count = std::min(joining.size(), options_.max_members - group.members.size());
    for (std::size_t i = 0; i < count; ++i) group.members.push_back({.id = joining[i]});
    joining.erase(joining.begin(), joining.begin() + static_cast<std::ptrdiff_t>(count));
    group.id = std::ranges::max(group.members, {}, &Member::id).id;
    group.size_when_formed = group.members.size();
    group.departed_sent_bytes = 0;
    group.departed_retries = 0;
    group.has_paths = false;
    group.edges = {};
    group.member_edges = 0;
  }
}

void FlowGroups::UpdateEdges(Group& group, std::span<const SourceEdges> members) {
  bool is_told = true;
  bool is_busy = false;
  std::uint64_t sum = 0;
  TimePoint first_busy = TimePoint::max();
  TimePoint last = TimePoint::min();
  for (const SourceEdges& member : members) {
    is_told = is_told && member.count > 0;
    sum += member.count;
    last = std::max(last, member.last);
    if (member.count % 2 == 0) continue;
    is_busy = true;
    first_busy = std::min(first_busy, member.last);
  }
  const bool was_told = group.edges.count > 0;
  const bool was_busy = group.edges.count % 2 == 1;
  const bool has_changed = sum > group.member_edges;
  group.member_edges = sum;
  if (!is_told) {
    group.edges = {};
    return;
  }
  std::uint32_t more = 0;
  if (!was_told) {
    more = is_busy ? 1 : 2;
  } else if (was_busy != is_busy) {
    more = 1;
  } else if (!is_busy && has_changed) {
    more = 2;  // a burst between two looks
  }
  if (more == 0) return;
  const TimePoint at = is_busy ? first_busy : last;
  group.edges = {.count = group.edges.count + more,
                 .last = at,
                 .between = was_told ? at - group.edges.last : Duration{}};
}

FlowSample FlowGroups::Combine(Group& group, std::span<const FlowSample* const> flows) {
  const auto sample_of = [&](const Member& member) -> const FlowSample& {
    return **std::ranges::find_if(flows, [&](const FlowSample* f) { return f->id == member.id; });
  };
  FlowSample sum = sample_of(group.members.front());
  sum.id = group.id;
  if (group.size_when_formed == 1) return sum;
  sum.max_paths = static_cast<std::uint8_t>(group.size_when_formed);
  sum.keeps_rate = true;
  sum.remaining_bytes = 0;
  sum.outstanding_bytes = 0;
  sum.sent_bytes = group.departed_sent_bytes;
  sum.retries = group.departed_retries;
  sum.kept = {.flow = group.id, .paths = {}};
  std::vector<SourceEdges> edges;
  for (Member& member : group.members) {
    const FlowSample& part = sample_of(member);
    member.sent_bytes = part.sent_bytes;
    member.retries = part.retries;
    edges.push_back(part.edges);
    sum.first_seen = std::min(sum.first_seen, part.first_seen);
    sum.keeps_rate = sum.keeps_rate && part.keeps_rate;
    sum.remaining_bytes += part.remaining_bytes;
    sum.outstanding_bytes += part.outstanding_bytes;
    sum.sent_bytes += part.sent_bytes;
    sum.retries += part.retries;
    sum.rtt_us = std::max(sum.rtt_us, part.rtt_us);
    sum.ports.push_back({.source_port = part.source_port,
                         .outstanding_bytes = part.outstanding_bytes,
                         .sent_bytes = part.sent_bytes,
                         .retries = part.retries});
    if (group.has_paths) continue;
    if (member.port == 0 && !part.kept.paths.empty()) {
      member.port = part.kept.paths.front().source_port;
    }
    if (member.port != 0) sum.kept.paths.push_back({.source_port = member.port});
  }
  UpdateEdges(group, edges);
  sum.edges = group.edges;
  return sum;
}

void FlowGroups::OnChange(std::function<void()> callback) {
  on_change_ = callback;
  source_.OnChange(std::move(callback));
}

void FlowGroups::ScheduleChange(Duration after) {
  if (change_) return;
  change_ = loop_.After(after, [this] {
    change_.reset();
    if (on_change_) on_change_();
  });
}

FlowGroups::Group* FlowGroups::Find(wire::LocalFlowId flow) {
  const auto key = keys_.find(flow);
  if (key == keys_.end()) return nullptr;
  std::vector<Group>& groups = places_.at(key->second).groups;
  const auto found = std::ranges::find(groups, flow, &Group::id);
  return found == groups.end() ? nullptr : &*found;
}

std::vector<wire::LocalFlowId> FlowGroups::MembersOf(wire::LocalFlowId flow) const {
  const auto key = keys_.find(flow);
  if (key == keys_.end()) return {flow};
  std::vector<wire::LocalFlowId> members;
  for (const Group& group : places_.at(key->second).groups) {
    if (group.id != flow) continue;
    for (const Member& member : group.members) members.push_back(member.id);
  }
  return members;
}

Result<void> FlowGroups::Apply(const wire::PathSet& paths) {
  Group* const group = Find(paths.flow);
  if (group == nullptr) return actuator_.Apply(paths);
  group->has_paths = true;
  std::vector<wire::FlowPath> free = paths.paths;
  const auto take = [&](auto found) {
    wire::FlowPath path = *found;
    free.erase(found);
    return path;
  };
  std::vector<std::pair<Member*, wire::FlowPath>> dealt;
  std::vector<Member*> others;
  for (Member& member : group->members) {
    const auto own = std::ranges::find(free, member.port, &wire::FlowPath::source_port);
    if (member.port != 0 && own != free.end()) {
      dealt.emplace_back(&member, take(own));
    } else {
      others.push_back(&member);
    }
  }
  for (std::size_t i = 0; i < others.size() && !paths.paths.empty(); ++i) {
    // With fewer paths than members, some paths carry several.
    dealt.emplace_back(others[i],
                       free.empty() ? paths.paths[i % paths.paths.size()] : take(free.begin()));
  }
  Result<void> outcome;
  for (auto& [member, path] : dealt) {
    member->port = path.source_port;
    const Result<void> applied =
        actuator_.Apply({.flow = member->id,
                         .paths = {std::move(path)},
                         .max_rate_bps = paths.max_rate_bps / group->members.size(),
                         .reason = paths.reason});
    // A member may have ended since the last look.
    if (!applied && applied.error().code != ErrorCode::kNotFound) outcome = applied;
  }
  return outcome;
}

Result<void> FlowGroups::Clear(wire::LocalFlowId flow) {
  Group* const group = Find(flow);
  if (group == nullptr) return actuator_.Clear(flow);
  Result<void> outcome;
  group->has_paths = true;
  for (Member& member : group->members) {
    member.port = 0;
    const Result<void> cleared = actuator_.Clear(member.id);
    if (!cleared && cleared.error().code != ErrorCode::kNotFound) outcome = cleared;
  }
  return outcome;
}

}  // namespace espalier::agent
