#include "controller/agents/flow_rounds.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace espalier::controller {
namespace {

// The rate of the flow's fastest path on an idle fabric, times the number of its subflows.
std::int64_t PathRate(const State& state, const Flow& flow) {
  if (flow.subflows.empty()) return 0;
  std::int64_t fastest = 0;
  for (const fabric::Path& path : state.PathsOf(flow)) {
    std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
    for (const fabric::DirectedLink hop : path.hops) {
      slowest = std::min(slowest, state.topology.link(hop.link).rate.value);
    }
    if (!path.hops.empty()) fastest = std::max(fastest, slowest);
  }
  return fastest * static_cast<std::int64_t>(flow.subflows.size());
}

// The only uplink of a NIC, or the first of several.
fabric::DirectedLink UplinkOf(const fabric::Topology& topology, const fabric::Attachment& at) {
  if (at.uplink) return *at.uplink;
  const auto links = topology.Outgoing(at.leaf);
  return *std::ranges::find_if(
      links, [&](fabric::DirectedLink link) { return topology.LeavesHost(link); });
}

// The links where a flow leaves and enters its NICs, and the rate of its paths between them.
JobRounds::Ends EndsOf(const State& state, const Flow& flow) {
  // Both NICs are known if the flow was placed or is local.
  const bool is_known = flow.status != FlowStatus::kUnroutable || !flow.subflows.empty();
  const auto attachment_of = [&](const IpAddress& address, fabric::NodeId known) {
    const auto nic = is_known ? std::optional(known) : state.topology.FindNic(address);
    return nic ? state.paths.FindAttachment(*nic) : std::nullopt;
  };
  JobRounds::Ends ends;
  if (const auto at = attachment_of(flow.source_address, flow.key.source)) {
    ends.source = UplinkOf(state.topology, *at);
  }
  if (const auto at = attachment_of(flow.destination_address, flow.key.destination)) {
    const fabric::DirectedLink uplink = UplinkOf(state.topology, *at);
    ends.destination = {uplink.link, !uplink.forward};
  }
  // Both NICs exist, but the flow was not placed: its source belongs to another host, and a host
  // must not add traffic to the NICs of others.
  if (ends.source && ends.destination && !is_known) return {};
  ends.path_bps = PathRate(state, flow);
  return ends;
}

}  // namespace

void FlowRounds::HandleOpened(FlowSlot slot) {
  senders_.resize(std::max(senders_.size(), slot.Index() + 1));
  senders_[slot.Index()] = {EndsOf(state_, state_.flows.At(slot))};
  state_.rounds.Join(state_.flows.At(slot).job, senders_[slot.Index()]);
}

void FlowRounds::HandleChanges(std::span<const MessageChange> changes) {
  for (const MessageChange& change : changes) __builtin_prefetch(&senders_[change.slot.Index()]);
  for (const MessageChange& change : changes) {
    __builtin_prefetch(senders_[change.slot.Index()].pair, 1);
  }
  for (const MessageChange& change : changes) {
    const std::uint32_t job = state_.flows.At(change.slot).job;
    JobRounds::Sender& sender = senders_[change.slot.Index()];
    if (change.is_busy && !change.was_busy) state_.rounds.Begin(job, sender, change.at);
    if (change.new_bytes > 0) state_.rounds.AddBytes(job, sender, change.new_bytes);
    if (change.was_busy && !change.is_busy) state_.rounds.End(job, sender, change.at);
  }
}

void FlowRounds::SetJob(FlowSlot slot, std::uint32_t job, TimePoint now) {
  const bool is_busy = state_.flows.ActivityOf(slot).IsBusy();
  JobRounds::Sender& sender = senders_[slot.Index()];
  if (is_busy) state_.rounds.End(state_.flows.At(slot).job, sender, now);
  state_.rounds.Leave(state_.flows.At(slot).job, sender);
  state_.flows.SetJob(slot, job);
  state_.rounds.Join(job, sender);
  if (is_busy) state_.rounds.Begin(job, sender, now);
}

void FlowRounds::HandleClosed(FlowSlot slot, TimePoint now) {
  JobRounds::Sender& sender = senders_[slot.Index()];
  const std::uint32_t job = state_.flows.At(slot).job;
  if (state_.flows.ActivityOf(slot).IsBusy()) state_.rounds.End(job, sender, now);
  state_.rounds.Leave(job, sender);
}

}  // namespace espalier::controller
