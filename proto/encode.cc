#include "proto/encode.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <unordered_map>

#include "proto/espalier/v1/messages.pb.h"
#include "proto/limits.h"
#include "proto/text.h"

namespace espalier::wire {
namespace {

std::uint64_t ToWire(LocalFlowId id) { return id.value(); }

template <typename Value>
auto ToWire(Value value) {
  if constexpr (std::is_enum_v<Value>) {
    return static_cast<std::underlying_type_t<Value>>(value);
  } else {
    return value;
  }
}

// Returns 4 bytes for IPv4, 16 for IPv6, none for no address.
std::string AddressBytes(const IpAddress& address) {
  if (address.IsNone()) return {};
  const IpAddress::Bytes& bytes = address.bytes();
  return {address.IsV4() ? bytes.end() - 4 : bytes.begin(), bytes.end()};
}

std::string ForPeople(const std::string& text) { return MakePrintable(text, kMaxTextBytes); }

// Fills a column with one member of all rows.
template <typename Row, typename Member, typename Column>
void FillColumn(const std::vector<Row>& rows, Member member, Column* column) {
  column->Reserve(static_cast<int>(rows.size()));
  for (const Row& row : rows) column->AddAlreadyReserved(ToWire(std::invoke(member, row)));
}

template <typename Value, typename Column>
void FillColumn(const std::vector<Value>& values, Column* column) {
  FillColumn(values, std::identity(), column);
}

void FillPathPorts(const std::vector<OpenedFlow>& from, v1::OpenedFlows& to) {
  const auto is_split = [](const OpenedFlow& flow) { return !flow.path_ports.empty(); };
  if (std::none_of(from.begin(), from.end(), is_split)) return;
  for (const OpenedFlow& flow : from) {
    to.add_path_count(static_cast<std::uint32_t>(flow.path_ports.size()));
    to.mutable_path_port()->Add(flow.path_ports.begin(), flow.path_ports.end());
  }
}

void EncodeBody(const Hello& from, v1::Hello& to) {
  to.set_name(from.name);
  to.set_protocol_major(from.protocol_major);
  to.set_protocol_minor(from.protocol_minor);
  to.mutable_features()->Add(from.features.begin(), from.features.end());
  to.set_highest_epoch(from.highest_epoch);
  to.set_applied_generation(from.applied_generation);
  for (const Nic& nic : from.nics) {
    v1::Nic& added = *to.add_nics();
    added.set_address(AddressBytes(nic.address));
    added.set_device(nic.device);
    added.set_link_up(nic.link_up);
  }
}

void EncodeBody(const Welcome& from, v1::Welcome& to) {
  to.set_accepted(from.accepted);
  to.set_reason(ForPeople(from.reason));
  to.set_protocol_major(from.protocol_major);
  to.set_protocol_minor(from.protocol_minor);
  to.set_epoch(from.epoch);
  to.set_heartbeat_interval_us(from.heartbeat_interval_us);
  to.mutable_features()->Add(from.features.begin(), from.features.end());
  to.set_report_interval_us(from.report_interval_us);
  to.set_max_messages_per_second(from.max_messages_per_second);
  to.set_max_bytes_per_second(from.max_bytes_per_second);
  to.set_max_entries_per_second(from.max_entries_per_second);
}

void EncodeBody(const Heartbeat& from, v1::Heartbeat& to) {
  to.set_sequence(from.sequence);
  to.set_epoch(from.epoch);
  to.set_generation(from.generation);
  to.set_report_interval_us(from.report_interval_us);
  for (const QueuePair& pair : from.wanted) {
    to.add_wanted_address(AddressBytes(pair.address));
    to.add_wanted_qpn(pair.number);
  }
}

void FillProgress(const std::vector<FlowProgress>& from, v1::FlowProgress& to) {
  FillColumn(from, &FlowProgress::id, to.mutable_id());
  FillColumn(from, &FlowProgress::remaining_bytes, to.mutable_remaining_bytes());
  FillColumn(from, &FlowProgress::outstanding_bytes, to.mutable_outstanding_bytes());
  FillColumn(from, &FlowProgress::achieved_bps, to.mutable_achieved_bps());
  FillColumn(from, &FlowProgress::state, to.mutable_state());
  const auto has_sent = [](const FlowProgress& flow) { return flow.sent_bytes != 0; };
  if (std::any_of(from.begin(), from.end(), has_sent)) {
    FillColumn(from, &FlowProgress::sent_bytes, to.mutable_sent_bytes());
  }
  const auto tells_edges = [](const FlowProgress& flow) {
    return flow.edges != 0 || flow.edge_age_us != 0 || flow.duty_permille != 0;
  };
  if (std::any_of(from.begin(), from.end(), tells_edges)) {
    FillColumn(from, &FlowProgress::edges, to.mutable_edges());
    FillColumn(from, &FlowProgress::edge_age_us, to.mutable_edge_age_us());
    FillColumn(from, &FlowProgress::duty_permille, to.mutable_duty_permille());
  }
}

void EncodeBody(const FlowReport& from, v1::FlowReport& to) {
  to.set_full(from.full);
  to.set_sequence(from.sequence);
  to.set_sent_us(from.sent_us);
  to.mutable_jobs()->Add(from.jobs.begin(), from.jobs.end());
  for (const IpAddress& address : from.addresses) to.add_addresses(AddressBytes(address));
  if (!from.opened.empty()) {
    v1::OpenedFlows& opened = *to.mutable_opened();
    FillColumn(from.opened, &OpenedFlow::id, opened.mutable_id());
    FillColumn(from.opened, &OpenedFlow::job, opened.mutable_job());
    FillColumn(from.opened, &OpenedFlow::source, opened.mutable_source());
    FillColumn(from.opened, &OpenedFlow::destination, opened.mutable_destination());
    FillColumn(from.opened, &OpenedFlow::protocol, opened.mutable_protocol());
    FillColumn(from.opened, &OpenedFlow::destination_port, opened.mutable_destination_port());
    FillColumn(from.opened, &OpenedFlow::local_qpn, opened.mutable_local_qpn());
    FillColumn(from.opened, &OpenedFlow::remote_qpn, opened.mutable_remote_qpn());
    FillColumn(from.opened, &OpenedFlow::max_paths, opened.mutable_max_paths());
    FillColumn(from.opened, &OpenedFlow::movable, opened.mutable_movable());
    FillColumn(from.opened, &OpenedFlow::age_us, opened.mutable_age_us());
    FillColumn(from.opened, &OpenedFlow::source_port, opened.mutable_source_port());
    FillColumn(from.opened, &OpenedFlow::steered, opened.mutable_steered());
    FillPathPorts(from.opened, opened);
    if (std::ranges::any_of(from.opened, &OpenedFlow::keeps_rate)) {
      FillColumn(from.opened, &OpenedFlow::keeps_rate, opened.mutable_keeps_rate());
    }
    if (std::ranges::any_of(from.opened, &OpenedFlow::keeps_weights)) {
      FillColumn(from.opened, &OpenedFlow::keeps_weights, opened.mutable_keeps_weights());
    }
    if (std::ranges::any_of(from.opened, &OpenedFlow::path_fixed)) {
      FillColumn(from.opened, &OpenedFlow::path_fixed, opened.mutable_path_fixed());
    }
    const auto tells_timeout = [](const OpenedFlow& flow) {
      return flow.timeout_us != 0 || flow.repetitions != 0;
    };
    if (std::ranges::any_of(from.opened, tells_timeout)) {
      FillColumn(from.opened, &OpenedFlow::timeout_us, opened.mutable_timeout_us());
      FillColumn(from.opened, &OpenedFlow::repetitions, opened.mutable_repetitions());
    }
  }
  if (!from.progress.empty()) FillProgress(from.progress, *to.mutable_progress());
  FillColumn(from.ended, to.mutable_ended());
}

void EncodeBody(const PathPush& from, v1::PathPush& to) {
  to.set_epoch(from.epoch);
  to.set_generation(from.generation);
  to.set_full(from.full);
  for (const PathSet& set : from.sets) {
    v1::PathSet& added = *to.add_sets();
    added.set_flow(set.flow.value());
    added.set_max_rate_bps(set.max_rate_bps);
    added.set_reason(static_cast<v1::PathReason>(set.reason));
    for (const FlowPath& path : set.paths) {
      v1::FlowPath& added_path = *added.add_paths();
      added_path.set_source_port(path.source_port);
      added_path.set_weight(path.weight);
      added_path.set_path_id(path.path_id);
      if (!path.encoding.empty()) added_path.set_encoding(path.encoding);
      FillColumn(path.links, added_path.mutable_links());
    }
  }
  FillColumn(from.withdrawn, to.mutable_withdrawn());
  to.set_plans(from.plans);
  FillColumn(from.unsteered, to.mutable_unsteered());
}

void EncodeBody(const Ack& from, v1::Ack& to) {
  to.set_epoch(from.epoch);
  to.set_generation(from.generation);
  to.set_status(static_cast<v1::AckStatus>(from.status));
  if (!from.detail.empty()) to.set_detail(ForPeople(from.detail));
  FillColumn(from.failed_flows, to.mutable_failed_flows());
}

void EncodeBody(const ProbeOrder& from, v1::ProbeOrder& to) {
  to.set_order(from.order);
  to.set_source(AddressBytes(from.source));
  to.set_destination(AddressBytes(from.destination));
  to.set_destination_port(from.destination_port);
  to.set_destination_qpn(from.destination_qpn);
  to.set_flow_protocol(from.flow_protocol == kProtocolUdp ? 0 : from.flow_protocol);
  FillColumn(from.source_ports, to.mutable_source_ports());
  FillColumn(from.ttls, to.mutable_ttls());
  to.set_probes_per_second(from.probes_per_second);
  to.set_timeout_us(from.timeout_us);
}

void EncodeBody(const ProbeReport& from, v1::ProbeReport& to) {
  to.set_order(from.order);
  to.set_done(from.done);
  to.set_sent(from.sent);
  FillColumn(from.answers, &ProbeAnswer::source_port, to.mutable_source_port());
  FillColumn(from.answers, &ProbeAnswer::ttl, to.mutable_ttl());
  FillColumn(from.answers, &ProbeAnswer::rtt_us, to.mutable_rtt_us());
  std::unordered_map<IpAddress, std::uint32_t> index;
  for (const ProbeAnswer& answer : from.answers) {
    const auto next = static_cast<std::uint32_t>(index.size());
    const auto [entry, is_new] = index.try_emplace(answer.responder, next);
    if (is_new) to.add_responders(AddressBytes(answer.responder));
    to.add_responder(entry->second);
  }
  to.set_error(ForPeople(from.error));
}

void EncodeBody(const PathHealth& from, v1::PathHealth& to) {
  FillColumn(from.flows, &FlowHealth::flow, to.mutable_flow());
  FillColumn(from.flows, &FlowHealth::path_id, to.mutable_path_id());
  FillColumn(from.flows, &FlowHealth::source_port, to.mutable_source_port());
  FillColumn(from.flows, &FlowHealth::achieved_bps, to.mutable_achieved_bps());
  FillColumn(from.flows, &FlowHealth::planned_bps, to.mutable_planned_bps());
  FillColumn(from.flows, &FlowHealth::retries, to.mutable_retries());
  FillColumn(from.flows, &FlowHealth::out_of_sequence, to.mutable_out_of_sequence());
  FillColumn(from.flows, &FlowHealth::cnp, to.mutable_cnp());
  FillColumn(from.flows, &FlowHealth::rtt_us, to.mutable_rtt_us());
  FillColumn(from.flows, &FlowHealth::verdict, to.mutable_verdict());
  const auto has_recovered = [](const FlowHealth& flow) { return flow.recovered_us != 0; };
  if (std::ranges::any_of(from.flows, has_recovered)) {
    FillColumn(from.flows, &FlowHealth::recovered_us, to.mutable_recovered_us());
  }
  if (std::ranges::any_of(from.flows, &FlowHealth::answered)) {
    FillColumn(from.flows, &FlowHealth::answered, to.mutable_answered());
  }
  const auto has_left = [](const FlowHealth& flow) { return flow.left_port != 0; };
  if (std::ranges::any_of(from.flows, has_left)) {
    FillColumn(from.flows, &FlowHealth::left_port, to.mutable_left_port());
  }
  const auto has_basis = [](const FlowHealth& flow) { return flow.basis != PathBasis::kClaimed; };
  if (std::ranges::any_of(from.flows, has_basis)) {
    FillColumn(from.flows, &FlowHealth::basis, to.mutable_basis());
  }
}

void EncodeBody(const LinkEvent& from, v1::LinkEvent& to) {
  to.set_link(from.link);
  to.set_address(AddressBytes(from.address));
  to.set_up(from.up);
  to.set_source(from.source);
}

void EncodeBody(const RankPlan& from, v1::RankPlan& to) {
  to.set_epoch(from.epoch);
  to.set_generation(from.generation);
  to.set_job(from.job);
  to.set_rank(from.rank);
  to.set_program(from.program);
  to.set_program_version(from.program_version);
  for (const PeerPorts& peer : from.peers) {
    v1::PeerPorts& added = *to.add_peers();
    added.set_rank(peer.rank);
    added.set_address(AddressBytes(peer.address));
    FillColumn(peer.source_ports, added.mutable_source_ports());
    added.set_destination_port(peer.destination_port);
    FillColumn(peer.channels, added.mutable_channels());
    for (const ConnectionNics& connection : peer.connections) {
      v1::ConnectionNics& nics = *added.add_connections();
      nics.set_channel(connection.channel);
      nics.set_source(AddressBytes(connection.source));
      nics.set_destination(AddressBytes(connection.destination));
    }
  }
  to.set_ranks(from.ranks);
  to.set_version(from.version);
  to.set_address(AddressBytes(from.address));
  to.set_listen_port(from.listen_port);
  to.set_offload(from.offload);
  to.set_urgent(from.urgent);
  to.set_verbs(from.verbs);
  for (const IpAddress& address : from.listen_addresses) {
    to.add_listen_addresses(AddressBytes(address));
  }
  to.set_job_key(from.job_key);
  for (const IpAddress& address : from.rank_addresses) {
    to.add_rank_addresses(AddressBytes(address));
  }
  to.set_user(from.user);
}

void EncodeBody(const CollectiveReport& from, v1::CollectiveReport& to) {
  to.set_job(from.job);
  to.set_rank(from.rank);
  to.set_sequence(from.sequence);
  to.set_collective(from.collective);
  to.set_bytes(from.bytes);
  to.set_duration_us(from.duration_us);
  to.set_error(ForPeople(from.error));
}

void EncodeBody(const TrainOrder& from, v1::TrainOrder& to) {
  to.set_key(from.key);
  to.set_destination_port(from.destination_port);
  to.set_packets(from.packets);
  to.set_gap_us(from.gap_us);
  to.set_urgent(from.urgent);
  for (const IpAddress& address : from.addresses) to.add_addresses(AddressBytes(address));
  FillColumn(from.trains, &Train::number, to.mutable_number());
  FillColumn(from.trains, &Train::source, to.mutable_source());
  FillColumn(from.trains, &Train::destination, to.mutable_destination());
  FillColumn(from.trains, &Train::source_port, to.mutable_source_port());
  FillColumn(from.trains, &Train::protocol, to.mutable_protocol());
  FillColumn(from.trains, &Train::dscp, to.mutable_dscp());
  FillColumn(from.trains, &Train::start_us, to.mutable_start_us());
  FillColumn(from.expected, &ExpectedTrain::number, to.mutable_expected());
  FillColumn(from.expected, &ExpectedTrain::until_us, to.mutable_expected_until_us());
  const bool is_known = std::ranges::all_of(
      from.expected, [](const ExpectedTrain& train) { return train.source_port != 0; });
  if (!is_known) return;
  FillColumn(from.expected, &ExpectedTrain::source, to.mutable_expected_source());
  FillColumn(from.expected, &ExpectedTrain::source_port, to.mutable_expected_source_port());
  FillColumn(from.expected, &ExpectedTrain::protocol, to.mutable_expected_protocol());
}

void EncodeBody(const TrainReport& from, v1::TrainReport& to) {
  FillColumn(from.sent, &SentTrain::number, to.mutable_sent());
  FillColumn(from.sent, &SentTrain::sent_mask, to.mutable_sent_mask());
  FillColumn(from.sent, &SentTrain::span_us, to.mutable_span_us());
  FillColumn(from.received, &ReceivedTrain::number, to.mutable_received());
  FillColumn(from.received, &ReceivedTrain::arrived_mask, to.mutable_arrived_mask());
  FillColumn(from.received, &ReceivedTrain::marked_mask, to.mutable_marked_mask());
  FillColumn(from.received, &ReceivedTrain::digest, to.mutable_digest());
  FillColumn(from.received, &ReceivedTrain::overflowed, to.mutable_overflowed());
  for (const ReceivedTrain& train : from.received) {
    for (const std::int64_t delay : train.delays_us) to.add_delay_us(delay);
  }
}

// One overload for each kind of body, so that a new kind does not compile without one.
struct BodyEncoder {
  v1::Envelope& to;

  void operator()(const Hello& from) const { EncodeBody(from, *to.mutable_hello()); }
  void operator()(const Welcome& from) const { EncodeBody(from, *to.mutable_welcome()); }
  void operator()(const Heartbeat& from) const { EncodeBody(from, *to.mutable_heartbeat()); }
  void operator()(const FlowReport& from) const { EncodeBody(from, *to.mutable_flow_report()); }
  void operator()(const PathPush& from) const { EncodeBody(from, *to.mutable_path_push()); }
  void operator()(const Ack& from) const { EncodeBody(from, *to.mutable_ack()); }
  void operator()(const ProbeOrder& from) const { EncodeBody(from, *to.mutable_probe_order()); }
  void operator()(const ProbeReport& from) const { EncodeBody(from, *to.mutable_probe_report()); }
  void operator()(const PathHealth& from) const { EncodeBody(from, *to.mutable_path_health()); }
  void operator()(const LinkEvent& from) const { EncodeBody(from, *to.mutable_link_event()); }
  void operator()(const RankPlan& from) const { EncodeBody(from, *to.mutable_rank_plan()); }
  void operator()(const CollectiveReport& from) const {
    EncodeBody(from, *to.mutable_collective_report());
  }
  void operator()(const TrainOrder& from) const { EncodeBody(from, *to.mutable_train_order()); }
  void operator()(const TrainReport& from) const { EncodeBody(from, *to.mutable_train_report()); }
};

}  // namespace

std::string Encode(const Message& message) {
  // Most messages fit into this block, so that only their bytes need an allocation.
  constexpr std::size_t kBlockBytes = 2'048;
  alignas(std::max_align_t) std::array<char, kBlockBytes> block;  // not cleared: it costs as much
  google::protobuf::ArenaOptions options;
  options.initial_block = block.data();
  options.initial_block_size = block.size();
  google::protobuf::Arena arena(options);
  auto& envelope = *google::protobuf::Arena::CreateMessage<v1::Envelope>(&arena);
  envelope.set_sender_instance(message.sender_instance);
  std::visit(BodyEncoder{envelope}, message.body);
  return envelope.SerializeAsString();
}

}  // namespace espalier::wire
