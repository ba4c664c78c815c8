#include "agent/dpdk/flow_control.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace espalier::dpdk {
namespace {

// Maximum number of unmatched acknowledgements handled in one Tick, as each is compared with all
// flows.
constexpr int kUnmatchedAcksPerTick = 16;
constexpr int kAnswersPerTick = 16;
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

}  // namespace

FlowControl::FlowControl(DatapathFlowTable& table, FlowControlOptions options, DeviceRules* device,
                         Metrics& metrics)
    : table_(table),
      options_(std::move(options)),
      agent_(options_.agent_socket),
      offload_(device, table, metrics),
      matcher_(table.streams()),
      arrivals_(table.streams(), matcher_),
      flow_count_(metrics.MakeGauge("espalier_dpdk_flows", "Flows in the datapath's table")),
      answering_count_(metrics.MakeGauge(
          "espalier_dpdk_answering_flows",
          "Flows in the datapath's table that send acknowledgements and no data")),
      connected_(metrics.MakeGauge("espalier_dpdk_agent_connected",
                                   "1 if the datapath is connected to the agent, else 0")),
      refused_(metrics.MakeCounter("espalier_dpdk_flows_refused_total",
                                   "Flows that are not steered because the table was full")),
      restarted_(metrics.MakeCounter("espalier_dpdk_queue_pair_numbers_reused_total",
                                     "Flows that ended because another queue pair got their "
                                     "queue pair's number")) {}

void FlowControl::Handle(const FlowEvent& event, TimePoint now) {
  if (event.kind == FlowEvent::Kind::kAcknowledgement) return HandleUnmatchedAck(event, now);
  if (event.kind == FlowEvent::Kind::kArrival) return arrivals_.Handle(event, now);
  if (event.kind == FlowEvent::Kind::kAnswer) {
    if (--answers_left_ >= 0 && !matcher_.Has(event.key)) arrivals_.HandleAnswer(event, now);
    return;
  }
  const auto known = flows_.find(event.key);
  if (known == flows_.end()) return Add(event, now);
  Flow& flow = known->second;
  if (flow.kind == FlowKind::kAnswers) return BeginData(flow, event, now);
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
            .local_qpn = event.local_qpn,
            .found = now,
            .activity = PacketActivity(now),
            .device = {.slot = *slot,
                       .own_port = event.own_port,
                       .vlan_tags = event.vlan_tags,
                       .kind = event.flow_kind}};
  matcher_.EndBetween(event.key);
  if (flow.local_qpn != 0) arrivals_.SetKnown(event.key.Reversed(flow.local_qpn));
  Announce(event.key, flow);
  flows_.emplace(event.key, flow);
  changed_ = true;
}

void FlowControl::AddAnswering(const StreamMatcher::Found& found, TimePoint now) {
  const FlowKey& key = found.acknowledgements;
  const auto known = flows_.find(key);
  if (known != flows_.end()) return SetLocalNumber(key, known->second, found.data.qpn());
  const auto slot = table_.Add(key, FlowKind::kAnswers, found.own_port, 0);
  if (!slot) return;
  Flow flow{.slot = *slot,
            .kind = FlowKind::kAnswers,
            .own_port = found.own_port,
            .first_psn = 0,
            .message_bytes = 0,
            .local_qpn = found.data.qpn(),
            .found = now,
            .activity = PacketActivity(now),
            .device = {.slot = *slot,
                       .own_port = found.own_port,
                       .vlan_tags = found.vlan_tags,
                       .kind = FlowKind::kAnswers}};
  arrivals_.SetKnown(found.data);
  Announce(key, flow);
  flows_.emplace(key, flow);
  ++answering_;
  changed_ = true;
}

void FlowControl::BeginData(Flow& flow, const FlowEvent& event, TimePoint now) {
  table_.BeginData(flow.slot, event.flow_kind, event.psn);
  flow.kind = flow.device.kind = event.flow_kind;
  flow.first_psn = event.psn;
  flow.message_bytes = event.message_bytes;
  flow.found = now;
  flow.activity = PacketActivity(now);
  matcher_.EndBetween(event.key);
  --answering_;
}

void FlowControl::Announce(const FlowKey& key, Flow& flow) {
  espalier_flow_desc description{};
  Write(key.source(), description.source);
  Write(key.destination(), description.destination);
  description.protocol = 17;
  description.max_paths = 1;
  description.movable = 1;
  description.flags = ESPALIER_FLOW_ALONE;  // which of them are one program's is not known
  description.destination_port = kRoceV2UdpPort;
  description.source_port = flow.own_port;
  description.local_qpn = flow.local_qpn;
  description.remote_qpn = key.qpn();
  description.remaining_bytes = flow.message_bytes;
  flow.handle = agent_.Open(description);
  flow.paths_version = 0;
}

void FlowControl::HandleUnmatchedAck(const FlowEvent& event, TimePoint now) {
  if (--unmatched_acks_left_ < 0 || matcher_.Has(event.key)) return;
  const FlowKey answered = event.key.Reversed(0);
  Flow* only = nullptr;  // for which the acknowledgement may be right now
  bool is_ambiguous = false;
  bool may_fit = false;
  bool is_settled = true;
  std::vector<StreamMatcher::Candidate> candidates;
  for (auto& [key, flow] : flows_) {
    if (!AreSameHosts(key, answered) || flow.kind != FlowKind::kRequests ||
        table_.HasAcknowledgements(flow.slot)) {
      continue;
    }
    is_settled = is_settled && now - flow.found >= StreamMatcher::kSettle;
    candidates.push_back({key, &table_.next(flow.slot)});
    const std::uint32_t next = table_.next_psn(flow.slot);
    may_fit |= AckMatch::Fits(next, event.psn, StreamMatcher::kMayFit);
    if (!AckMatch::Fits(next, event.psn, kWindow)) continue;
    is_ambiguous = only != nullptr;
    only = &flow;
  }
  if (only == nullptr || is_ambiguous) {
    if (may_fit && is_settled) matcher_.Begin(event, candidates, now);
    return;
  }
  if (!(only->acknowledgements == event.key)) {
    only->acknowledgements = event.key;
    only->votes = 0;
  }
  if (++only->votes >= kVotes) Pair(table_.key(only->slot), *only, event.key);
}

void FlowControl::HandleFound(const StreamMatcher::Found& found, TimePoint now) {
  if (arrivals_.Has(found.data)) return AddAnswering(found, now);
  const auto flow = flows_.find(found.data);
  if (flow == flows_.end() || table_.HasAcknowledgements(flow->second.slot)) return;
  Pair(found.data, flow->second, found.acknowledgements);
}

void FlowControl::Pair(const FlowKey& key, Flow& flow, const FlowKey& acknowledgements) {
  table_.Pair(flow.slot, acknowledgements);
  changed_ = true;
  matcher_.Exclude(key);
  SetLocalNumber(key, flow, acknowledgements.qpn());
}

void FlowControl::SetLocalNumber(const FlowKey& key, Flow& flow, std::uint32_t local_qpn) {
  arrivals_.SetKnown(key.Reversed(local_qpn));
  if (flow.local_qpn == local_qpn) return;
  if (flow.local_qpn != 0) arrivals_.Forget(key.Reversed(flow.local_qpn));
  flow.local_qpn = local_qpn;
  if (flow.handle != nullptr) (void)espalier_flow_set_local_qpn(flow.handle, local_qpn);
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
  // An answering flow has nothing to send of its own.
  constexpr std::uint32_t kNeverBusy = 2;
  espalier_flow_edges(flow.handle,
                      flow.kind == FlowKind::kAnswers ? kNeverBusy : flow.activity.edges(),
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
  matcher_.EndBetween(flow->first);  // a match may still read its line
  if (flow->second.local_qpn != 0) arrivals_.Forget(flow->first.Reversed(flow->second.local_qpn));
  if (flow->second.kind == FlowKind::kAnswers) --answering_;
  espalier_flow_close(flow->second.handle);
  offload_.Remove(flow->second.device);
  table_.Remove(flow->second.slot);
  changed_ = true;
  return flows_.erase(flow);
}

void FlowControl::RemoveLongestIdle(TimePoint now) {
  const auto goes_first = [](const auto& a, const auto& b) {
    const bool a_answers = a.second.kind == FlowKind::kAnswers;
    const bool b_answers = b.second.kind == FlowKind::kAnswers;
    if (a_answers != b_answers) return a_answers;
    return a.second.activity.last_packet() < b.second.activity.last_packet();
  };
  const auto first = std::min_element(flows_.begin(), flows_.end(), goes_first);
  if (first == flows_.end()) return;
  const bool is_idle = now - first->second.activity.last_packet() >= kMayMakeRoom;
  if (is_idle || first->second.kind == FlowKind::kAnswers) Remove(first);
}

// Finds out which streams belong together.
void FlowControl::TickStreams(TimePoint now) {
  arrivals_.Tick(now);
  const auto is_ready = [this](const FlowKey& data) {
    return !arrivals_.Has(data) || arrivals_.HasEnough(data);
  };
  for (const StreamMatcher::Found& found : matcher_.TakeFound(now, is_ready)) {
    HandleFound(found, now);
  }
  answers_left_ = kAnswersPerTick;
  table_.LookAtStreams(arrivals_.IsLooking());
  changed_ |= arrivals_.TakeChanged();
  changed_ |= matcher_.TakeChanged();
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
  TickStreams(now);
  table_.Reclaim();
  if (std::exchange(changed_, false)) table_.Publish();
  flow_count_.Set(static_cast<double>(flows_.size()));
  answering_count_.Set(static_cast<double>(answering_));
  connected_.Set(agent_.IsConnected() ? 1 : 0);
}

}  // namespace espalier::dpdk
