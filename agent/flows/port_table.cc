#include "agent/flows/port_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

// Problem: pushes can be lost, repeated, come from a controller that was replaced, or come before
// their flow opens; meanwhile the agent may reroute flows itself.
// Idea: an entry keeps the pushed and the applied path set apart. Comparing a full push with
// `pushed` shows what the controller has changed, whatever the agent did since. A predicted path
// set waits in an entry without `in_force` until its flow opens.
// Invariant: with has_base_, the pushed sets are exactly those of generation_ in epoch_, but for
// flows that have ended and sets that failed, which the acknowledgement names.
// Cost: O(log flows) for each path set; O(flows) for a full push and for each look.

namespace espalier::agent {
namespace {

// Limits the table, which also holds path sets whose flows have not opened.
constexpr std::size_t kMaxEntries = 32'768;

bool HasRate(const wire::PathSet& set) { return set.max_rate_bps != 0; }

wire::PathSet WithoutStandbys(wire::PathSet set) {
  std::erase_if(set.paths, [](const wire::FlowPath& path) { return path.IsStandby(); });
  return set;
}

// Whether these are the same paths, whatever is known of their links.
bool AreSame(const std::vector<wire::FlowPath>& a, const std::vector<wire::FlowPath>& b) {
  return std::ranges::equal(a, b, [](wire::FlowPath x, const wire::FlowPath& y) {
    x.links = y.links;
    return x == y;
  });
}

}  // namespace

wire::Ack PortTable::HandlePush(const wire::PathPush& push) {
  wire::Ack ack{.epoch = push.epoch, .generation = push.generation};
  if (push.epoch < epoch_) {
    ack.status = wire::AckStatus::kStaleEpoch;
    ack.detail = fmt::format("the agent has seen the later epoch {}", epoch_);
    return ack;
  }
  if (push.epoch > epoch_) {
    epoch_ = push.epoch;
    generation_ = 0;
    has_base_ = !HasPushed();
  }
  const bool is_repeated =
      push.full ? push.generation < generation_ : has_base_ && push.generation <= generation_;
  if (is_repeated) return ack;
  if (!push.full && (!has_base_ || push.generation != generation_ + 1)) {
    ack.status = wire::AckStatus::kNeedFull;
    ack.detail = fmt::format("the agent is at generation {}", applied_generation());
    return ack;
  }
  if (push.full) {
    std::set<wire::LocalFlowId> listed;
    for (const wire::PathSet& set : push.sets) listed.insert(set.flow);
    std::vector<wire::LocalFlowId> gone;
    for (const auto& [flow, entry] : entries_) {
      if (!entry.pushed.paths.empty() && !listed.contains(flow)) gone.push_back(flow);
    }
    for (const wire::LocalFlowId flow : gone) Withdraw(flow);
  }
  for (const wire::LocalFlowId flow : push.withdrawn) Withdraw(flow);
  for (const wire::PathSet& set : push.sets) {
    if (!ApplySet(set, push.full)) ack.failed_flows.push_back(set.flow);
  }
  NoteUnsteered(push);
  generation_ = push.generation;
  has_base_ = true;
  if (!ack.failed_flows.empty()) ack.status = wire::AckStatus::kFailed;
  return ack;
}

bool PortTable::ApplySet(const wire::PathSet& set, bool full) {
  wire::PathSet active = WithoutStandbys(set);
  if (active.paths.empty()) {
    Withdraw(set.flow);
    return true;
  }
  const auto known = entries_.find(set.flow);
  const bool is_new = known == entries_.end();
  const bool keeps_paths = full || set.reason == wire::PathReason::kStandby;
  if (!is_new && keeps_paths &&
      AreSame(WithoutStandbys(known->second.pushed).paths, active.paths)) {
    known->second.pushed.paths = set.paths;
    TellLinks(known->second, full);
    return SetRate(known->second, set.max_rate_bps);
  }
  if (is_new && entries_.size() >= kMaxEntries) return false;
  if (active.reason == wire::PathReason::kStandby) active.reason = wire::PathReason::kAssigned;
  if (const Result<void> applied = actuator_.Apply(active); !applied) {
    const bool not_open_yet =
        set.reason == wire::PathReason::kPredicted && applied.error().code == ErrorCode::kNotFound;
    if (!not_open_yet) return false;
    entries_[set.flow] = {.pushed = set, .in_force = {}};
    return true;
  }
  entries_[set.flow] = {.pushed = set, .in_force = active};
  if (set.reason == wire::PathReason::kPathDead) moved_off_dead_.push_back(set.flow);
  return true;
}

void PortTable::TellLinks(Entry& entry, bool full) {
  for (wire::FlowPath& path : entry.in_force.paths) {
    const auto pushed =
        std::ranges::find(entry.pushed.paths, path.source_port, &wire::FlowPath::source_port);
    const bool is_pushed = pushed != entry.pushed.paths.end();
    if (is_pushed) path.links = pushed->links;
    if (!is_pushed && full) path.links.clear();  // another controller may number them otherwise
  }
}

void PortTable::NoteUnsteered(const wire::PathPush& push) {
  if (push.full) unsteered_.clear();
  for (const wire::PathSet& set : push.sets) unsteered_.erase(set.flow);
  for (const wire::LocalFlowId flow : push.withdrawn) unsteered_.erase(flow);
  for (const wire::LocalFlowId flow : push.unsteered) {
    if (unsteered_.size() < kMaxEntries) unsteered_.insert(flow);
  }
}

bool PortTable::SetRate(Entry& entry, std::uint64_t bits_per_second) {
  entry.pushed.max_rate_bps = bits_per_second;
  const bool waits = entry.in_force.paths.empty();
  if (waits || entry.in_force.max_rate_bps == bits_per_second) return true;
  wire::PathSet set = entry.in_force;
  set.max_rate_bps = bits_per_second;
  if (!actuator_.Apply(set)) return false;
  entry.in_force = std::move(set);
  return true;
}

void PortTable::Withdraw(wire::LocalFlowId flow) {
  const auto known = entries_.find(flow);
  if (known == entries_.end()) return;
  // Clear fails if the flow has ended, and then there is no port to return.
  if (!known->second.in_force.paths.empty()) (void)actuator_.Clear(flow);
  entries_.erase(known);
}

void PortTable::Adopt(std::span<const FlowSample> flows) {
  for (const FlowSample& flow : flows) {
    if (flow.kept.paths.empty() || entries_.size() >= kMaxEntries) continue;
    entries_.try_emplace(flow.id, Entry{.pushed = flow.kept, .in_force = flow.kept});
  }
}

void PortTable::HandleFlows(std::span<const FlowSample> flows) {
  Adopt(flows);
  std::erase_if(unsteered_, [&](wire::LocalFlowId id) {
    return !std::ranges::binary_search(flows, id, {}, &FlowSample::id);
  });
  auto flow = flows.begin();
  for (auto at = entries_.begin(); at != entries_.end();) {
    while (flow != flows.end() && flow->id < at->first) ++flow;
    const bool is_open = flow != flows.end() && flow->id == at->first;
    Entry& entry = at->second;
    const bool waits = entry.in_force.paths.empty();
    if (is_open && waits) {
      wire::PathSet active = WithoutStandbys(entry.pushed);
      if (actuator_.Apply(active)) entry.in_force = std::move(active);
    } else if (!is_open && !waits) {
      at = entries_.erase(at);
      continue;
    }
    ++at;
  }
}

Result<void> PortTable::RerouteLocally(const wire::PathSet& paths) {
  Result<void> applied = actuator_.Apply(paths);
  if (!applied) return applied;
  Entry& entry = entries_[paths.flow];
  const auto has = [](const wire::PathSet& set, std::uint16_t port) {
    return std::ranges::find(set.paths, port, &wire::FlowPath::source_port) != set.paths.end();
  };
  std::erase_if(entry.pushed.paths, [&](const wire::FlowPath& path) {
    const std::uint16_t port = path.source_port;
    return path.IsStandby() && has(entry.in_force, port) && !has(paths, port);
  });
  entry.in_force = paths;
  moved_off_dead_.push_back(paths.flow);
  return applied;
}

std::size_t PortTable::LiftRates() {
  std::size_t lifted = 0;
  for (auto& [flow, entry] : entries_) {
    if (!HasRate(entry.pushed) && !HasRate(entry.in_force)) continue;
    ++lifted;
    (void)SetRate(entry, 0);  // fails if the flow has ended
  }
  return lifted;
}

std::size_t PortTable::CountRates() const {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [](const auto& at) { return HasRate(at.second.in_force); }));
}

std::size_t PortTable::Expire() {
  std::size_t cleared = 0;
  for (const auto& [flow, entry] : entries_) {
    if (!entry.in_force.paths.empty() && actuator_.Clear(flow)) ++cleared;
  }
  entries_.clear();
  has_base_ = false;
  return cleared;
}

const wire::PathSet* PortTable::Find(wire::LocalFlowId flow) const {
  const auto known = entries_.find(flow);
  if (known == entries_.end() || known->second.in_force.paths.empty()) return nullptr;
  return &known->second.in_force;
}

std::vector<wire::FlowPath> PortTable::StandbysOf(wire::LocalFlowId flow) const {
  std::vector<wire::FlowPath> standbys;
  const auto known = entries_.find(flow);
  if (known == entries_.end()) return standbys;
  std::ranges::copy_if(
      known->second.pushed.paths, std::back_inserter(standbys),
      [&](const wire::FlowPath& path) { return IsFreeStandby(known->second, path); });
  return standbys;
}

bool PortTable::HasStandby(wire::LocalFlowId flow) const {
  const auto known = entries_.find(flow);
  return known != entries_.end() &&
         std::ranges::any_of(known->second.pushed.paths, [&](const wire::FlowPath& path) {
           return IsFreeStandby(known->second, path);
         });
}

bool PortTable::IsFreeStandby(const Entry& entry, const wire::FlowPath& path) {
  const auto& in_force = entry.in_force.paths;
  return path.IsStandby() && std::ranges::find(in_force, path.source_port,
                                               &wire::FlowPath::source_port) == in_force.end();
}

bool PortTable::IsSteered(wire::LocalFlowId flow, std::uint16_t port) const {
  const auto known = entries_.find(flow);
  if (known == entries_.end() || known->second.in_force.paths.empty()) return false;
  const auto& pushed = known->second.pushed.paths;
  return std::any_of(pushed.begin(), pushed.end(),
                     [port](const wire::FlowPath& path) { return path.source_port == port; });
}

bool PortTable::HasPushed() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const auto& entry) { return !entry.second.pushed.paths.empty(); });
}

}  // namespace espalier::agent
