#include "agent/dpdk/flow_control.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/log.h"

namespace espalier::dpdk {
namespace {

// Maximum number of unmatched acknowledgements handled in one Tick, as each is compared with all
// flows.
constexpr int kUnmatchedAcksPerTick = 16;
constexpr int kVotes = 3;
// Maximum number of packets of a flow that are in flight.
constexpr std::uint32_t kWindow = 4096;
constexpr std::uint32_t kSameQueuePair = 1U << 16;
// If the table is full, a flow that has been idle for this long makes room.
constexpr Duration kMayMakeRoom = std::chrono::seconds(10);

std::uint64_t NanosecondsOf(std::chrono::nanoseconds span) {
  return static_cast<std::uint64_t>(span.count());
}

void Write(const IpAddress& address, std::uint8_t (&bytes)[16]) {
  std::copy(address.bytes().begin(), address.bytes().end(), bytes);
}

bool AreSameHosts(const FlowKey& a, const FlowKey& b) {
  return ((a.number ^ b.number) & 0xFF) == 0 && std::memcmp(a.addresses, b.addresses, 32) == 0;
}

}  // namespace

FlowControl::FlowControl(DatapathFlowTable& table, FlowControlOptions options, DeviceRules* device,
                         Metrics& metrics)
    : table_(table),
      options_(std::move(options)),
      agent_(options_.agent_socket),
      offload_(device, table, metrics),
      flow_count_(metrics.MakeGauge("espalier_dpdk_flows", "Flows in the datapath's table")),
      connected_(metrics.MakeGauge("espalier_dpdk_agent_connected",
                                   "1 if the datapath is connected to the agent, else 0")),
      refused_(metrics.MakeCounter("espalier_dpdk_flows_refused_total",
                                   "Flows that are not steered because the table was full")),
      restarted_(metrics.MakeCounter("espalier_dpdk_queue_pair_numbers_reused_total",
                                     "Flows that ended because another queue pair got their "
                                     "queue pair's number")) {}

void FlowControl::Handle(const FlowEvent& event, TimePoint now) {
  if (event.kind == FlowEvent::Kind::kAcknowledgement) return HandleUnmatchedAck(event);
  const auto known = flows_.find(event.key);
  if (known == flows_.end()) return Add(event, now);
  const Flow& flow = known->second;
  const std::uint32_t psns = (event.psn - flow.first_psn) & kPsnMask;
  const bool is_same = event.kind == FlowEvent::Kind::kNewFlow ||
                       (flow.own_port == event.own_port && psns < kSameQueuePair);
  if (is_same) return;  // reported before its line was visible to cores
  restarted_.Add();
  Remove(known);
  Add(event, now);
}

void FlowControl::Add(const FlowEvent& event, TimePoint now) {
  const auto slot = table_.Add(event.key, event.flow_kind, event.own_port, event.psn);
  if (!slot) {
    is_full_ = true;
    return refused_.Add();
  }
  Flow flow{.slot = *slot,
            .kind = event.flow_kind,
            .own_port = event.own_port,
            .first_psn = event.psn,
            .message_bytes = event.message_bytes,
            .activity = PacketActivity(now),
            .device = {.slot = *slot,
                       .own_port = event.own_port,
                       .vlan_tags = event.vlan_tags,
                       .kind = event.flow_kind}};
  Announce(event.key, flow);
  flows_.emplace(event.key, flow);
  changed_ = true;
}

void FlowControl::Announce(const FlowKey& key, Flow& flow) {
  espalier_flow_desc description{};
  Write(key.source(), description.source);
  Write(key.destination(), description.destination);
  description.protocol = 17;
  description.max_paths = 1;
  description.movable = 1;
  description.destination_port = kRoceV2UdpPort;
  description.source_port = flow.own_port;
  description.remote_qpn = key.qpn();
  description.remaining_bytes = flow.message_bytes;
  flow.handle = agent_.Open(description);
  flow.paths_version = 0;
}

void FlowControl::HandleUnmatchedAck(const FlowEvent& event) {
  if (--unmatched_acks_left_ < 0) return;
  const FlowKey answered = event.key.Reversed(0);
  Flow* only = nullptr;
  for (auto& [key, flow] : flows_) {
    if (!AreSameHosts(key, answered) || flow.kind != FlowKind::kRequests ||
        table_.HasAcknowledgements(flow.slot)) {
      continue;
    }
    const std::uint32_t next = table_.next_psn(flow.slot);
    if (((next - 1 - event.psn) & kPsnMask) >= kWindow) continue;
    if (only != nullptr) return;  // ambiguous
    only = &flow;
  }
  if (only == nullptr) return;
  if (!(only->acknowledgements == event.key)) {
    only->acknowledgements = event.key;
    only->votes = 0;
  }
  if (++only->votes < kVotes) return;
  table_.Pair(only->slot, event.key);
  changed_ = true;
}

void FlowControl::Update(const FlowKey& key, Flow& flow, TimePoint now) {
  const FlowCounts counts = offload_.Total(flow.device);
  const bool has_sent = std::exchange(flow.packets, counts.packets) != counts.packets;
  flow.activity.Update(has_sent, counts.outstanding_bytes > 0, now);
  if (flow.handle == nullptr) {
    if (agent_.IsConnected()) Announce(key, flow);
    if (flow.handle == nullptr) return;
  }
  const std::uint64_t sent = counts.bytes - counts.outstanding_bytes;
  const std::uint64_t remaining =
      flow.message_bytes - std::min<std::uint64_t>(flow.message_bytes, counts.bytes);
  const std::uint16_t chosen = table_.port(flow.slot);
  espalier_flow_progress(flow.handle, remaining, counts.outstanding_bytes, sent,
                         chosen != 0 ? chosen : flow.own_port);
  espalier_flow_transport(flow.handle, counts.retries, counts.rtt_us);
  espalier_flow_edges(flow.handle, flow.activity.edges(),
                      NanosecondsOf(flow.activity.last_edge().time_since_epoch()),
                      NanosecondsOf(flow.activity.between()));
  const std::uint64_t version = espalier_flow_version(flow.handle);
  if (version == flow.paths_version) return;
  flow.paths_version = version;
  espalier_path_set paths{};
  espalier_flow_paths(flow.handle, &paths);
  const std::uint16_t port = paths.path_count == 0 ? std::uint16_t{0} : paths.source_port[0];
  table_.SetPort(flow.slot, port);
  Log(LogLevel::kDebug, "event=flow_port source={} destination={} qpn={} own_port={} port={}",
      key.source().ToString(), key.destination().ToString(), key.qpn(), flow.own_port, port);
}

FlowControl::Flows::iterator FlowControl::Remove(Flows::iterator flow) {
  espalier_flow_close(flow->second.handle);
  offload_.Remove(flow->second.device);
  table_.Remove(flow->second.slot);
  changed_ = true;
  return flows_.erase(flow);
}

void FlowControl::RemoveLongestIdle(TimePoint now) {
  const auto earlier = [](const auto& a, const auto& b) {
    return a.second.activity.last_packet() < b.second.activity.last_packet();
  };
  const auto longest = std::min_element(flows_.begin(), flows_.end(), earlier);
  if (longest == flows_.end()) return;
  if (now - longest->second.activity.last_packet() >= kMayMakeRoom) Remove(longest);
}

void FlowControl::Tick(TimePoint now) {
  if (!agent_.Look(now)) {
    Log(LogLevel::kWarning, "event=agent_gone flows_to_own_ports={}", flows_.size());
    for (auto& [key, flow] : flows_) {
      flow.handle = nullptr;
      table_.SetPort(flow.slot, 0);
    }
  }
  bool has_unpaired = false;
  for (auto flow = flows_.begin(); flow != flows_.end();) {
    Update(flow->first, flow->second, now);
    offload_.Update(flow->second.device, now);
    if (now - flow->second.activity.last_packet() >= options_.idle_flow) {
      flow = Remove(flow);
      continue;
    }
    has_unpaired |=
        flow->second.kind == FlowKind::kRequests && !table_.HasAcknowledgements(flow->second.slot);
    ++flow;
  }
  if (std::exchange(is_full_, false)) RemoveLongestIdle(now);
  table_.ReportUnmatchedAcks(has_unpaired);
  unmatched_acks_left_ = kUnmatchedAcksPerTick;
  table_.Reclaim();
  if (std::exchange(changed_, false)) table_.Publish();
  flow_count_.Set(static_cast<double>(flows_.size()));
  connected_.Set(agent_.IsConnected() ? 1 : 0);
}

}  // namespace espalier::dpdk
