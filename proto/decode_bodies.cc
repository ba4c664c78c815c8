#include "proto/decode_bodies.h"

#include <algorithm>

#include "common/base/users/local_user.h"
#include "proto/bodies.h"
#include "proto/espalier/v1/messages.pb.h"
#include "proto/limits.h"

namespace espalier::wire {
namespace {

using enum Rules::Presence;

void DecodeFeatures(const char* field, const google::protobuf::RepeatedPtrField<std::string>& from,
                    Rules& rules, std::vector<std::string>& to) {
  rules.AtMost(field, from.size(), kMaxFeatures);
  if (!rules.ok()) return;
  for (int i = 0; i < from.size(); ++i) rules.Name({field, Size(i)}, from[i], kRequired);
  to.assign(from.begin(), from.end());
}

// Converts ports or TTLs (at least 1) to their narrower type.
template <typename To>
void DecodeSmall(const Field& field, std::span<const std::uint32_t> from, Rules& rules,
                 std::vector<To>& to) {
  rules.InRange(field, from, 1, std::numeric_limits<To>::max());
  if (!rules.ok()) return;
  to.resize(from.size());
  std::transform(from.begin(), from.end(), to.begin(),
                 [](std::uint32_t value) { return static_cast<To>(value); });
}

}  // namespace

void DecodeBody(const v1::Hello& from, Rules& rules, Hello& to) {
  rules.Name("hello.name", from.name(), kRequired);
  DecodeFeatures("hello.features", from.features(), rules, to.features);
  rules.AtMost("hello.nics", from.nics_size(), kMaxNics);
  if (!rules.ok()) return;
  to.name = from.name();
  to.protocol_major = from.protocol_major();
  to.protocol_minor = from.protocol_minor();
  to.highest_epoch = from.highest_epoch();
  to.applied_generation = from.applied_generation();
  to.nics.resize(Size(from.nics_size()));
  for (std::size_t i = 0; i < to.nics.size(); ++i) {
    const v1::Nic& nic = from.nics(static_cast<int>(i));
    const Field field("hello.nics", i);
    rules.Name({field, "device"}, nic.device(), kOptional);
    to.nics[i].address = rules.Address({field, "address"}, nic.address());
    to.nics[i].device = nic.device();
    to.nics[i].link_up = nic.link_up();
    const auto same = [&](const Nic& other) { return other.address == to.nics[i].address; };
    if (std::any_of(to.nics.begin(), to.nics.begin() + static_cast<std::ptrdiff_t>(i), same)) {
      rules.Fail({field, "address"}, "occurs twice");
    }
  }
}

void DecodeBody(const v1::Welcome& from, Rules& rules, Welcome& to) {
  rules.Text("welcome.reason", from.reason());
  rules.InRange("welcome.heartbeat_interval_us", from.heartbeat_interval_us(),
                from.accepted() ? 1 : 0, kMaxDurationUs);
  rules.InRange("welcome.report_interval_us", from.report_interval_us(), 0, kMaxDurationUs);
  DecodeFeatures("welcome.features", from.features(), rules, to.features);
  to.accepted = from.accepted();
  to.reason = from.reason();
  to.protocol_major = from.protocol_major();
  to.protocol_minor = from.protocol_minor();
  to.epoch = from.epoch();
  to.heartbeat_interval_us = from.heartbeat_interval_us();
  to.report_interval_us = from.report_interval_us();
  to.max_messages_per_second = from.max_messages_per_second();
  to.max_bytes_per_second = from.max_bytes_per_second();
  to.max_entries_per_second = from.max_entries_per_second();
}

void DecodeBody(const v1::Heartbeat& from, Rules& rules, Heartbeat& to) {
  rules.InRange("heartbeat.report_interval_us", from.report_interval_us(), 0, kMaxDurationUs);
  to.sequence = from.sequence();
  to.epoch = from.epoch();
  to.generation = from.generation();
  to.report_interval_us = from.report_interval_us();
  const Field address = "heartbeat.wanted_address";
  rules.AtMost(address, from.wanted_address_size(), kMaxWantedQueuePairs);
  rules.SameLength("heartbeat.wanted_qpn", from.wanted_qpn_size(), address,
                   from.wanted_address_size());
  rules.InRange("heartbeat.wanted_qpn", Column(from.wanted_qpn()), 1, kMaxQpn);
  to.wanted.clear();
  if (!rules.ok()) return;
  for (int i = 0; i < from.wanted_address_size(); ++i) {
    to.wanted.push_back(
        {.address = rules.Address(address, from.wanted_address(i)), .number = from.wanted_qpn(i)});
  }
}

void DecodeBody(const v1::Ack& from, Rules& rules, Ack& to) {
  rules.InRange("ack.status", static_cast<std::uint64_t>(from.status()), 0, v1::AckStatus_MAX);
  rules.Text("ack.detail", from.detail());
  rules.AtMost("ack.failed_flows", from.failed_flows_size(), kMaxFlowsPerReport);
  rules.Unique("ack.failed_flows", Column(from.failed_flows()));
  if (!rules.ok()) return;
  to.epoch = from.epoch();
  to.generation = from.generation();
  to.status = static_cast<AckStatus>(from.status());
  to.detail = from.detail();
  AssignIds(from.failed_flows(), to.failed_flows);
}

void DecodeBody(const v1::ProbeOrder& from, Rules& rules, ProbeOrder& to) {
  const std::uint64_t probes = static_cast<std::uint64_t>(from.source_ports_size()) *
                               static_cast<std::uint64_t>(from.ttls_size());
  rules.InRange("probe_order.source_ports x ttls", probes, 1, kMaxProbesPerOrder);
  rules.InRange("probe_order.destination_port", from.destination_port(), 1, kMaxPort);
  rules.InRange("probe_order.destination_qpn", from.destination_qpn(), 0, kMaxQpn);
  rules.InRange("probe_order.flow_protocol", from.flow_protocol(), 0, 255);
  rules.InRange("probe_order.probes_per_second", from.probes_per_second(), 1, kMaxProbesPerSecond);
  rules.InRange("probe_order.timeout_us", from.timeout_us(), 0, kMaxDurationUs);
  DecodeSmall("probe_order.source_ports", Column(from.source_ports()), rules, to.source_ports);
  DecodeSmall("probe_order.ttls", Column(from.ttls()), rules, to.ttls);
  to.order = from.order();
  if (from.flow_protocol() != 0) to.flow_protocol = static_cast<std::uint8_t>(from.flow_protocol());
  to.source = rules.Address("probe_order.source", from.source());
  to.destination = rules.Address("probe_order.destination", from.destination());
  if (to.source.IsV4() != to.destination.IsV4()) {
    rules.Fail("probe_order.destination", "must be of the same address family as source");
  }
  if (!rules.ok()) return;
  to.destination_port = static_cast<std::uint16_t>(from.destination_port());
  to.destination_qpn = from.destination_qpn();
  to.probes_per_second = from.probes_per_second();
  to.timeout_us = from.timeout_us();
}

void DecodeBody(const v1::LinkEvent& from, Rules& rules, LinkEvent& to) {
  rules.Name("link_event.link", from.link(), kOptional);
  rules.Name("link_event.source", from.source(), kOptional);
  const bool has_address = !from.address().empty();
  if (from.link().empty() && !has_address)
    rules.Fail("link_event", "names neither a link nor an address");
  to.link = from.link();
  to.address = has_address ? rules.Address("link_event.address", from.address()) : IpAddress();
  to.up = from.up();
  to.source = from.source();
}

namespace {

void DecodeNics(const Field& peer, const v1::PeerPorts& from, Rules& rules, PeerPorts& to) {
  rules.AtMost({peer, "connections"}, from.connections_size(), kMaxPathsPerFlow);
  if (!rules.ok()) return;
  for (const v1::ConnectionNics& connection : from.connections()) {
    ConnectionNics& nics = to.connections.emplace_back();
    nics.channel = connection.channel();
    nics.source = rules.Address({peer, "connections.source"}, connection.source());
    nics.destination = rules.Address({peer, "connections.destination"}, connection.destination());
  }
}

}  // namespace

void DecodeBody(const v1::RankPlan& from, Rules& rules, RankPlan& to) {
  rules.Name("rank_plan.job", from.job(), kRequired);
  rules.AtMost("rank_plan.peers", from.peers_size(), kMaxTableEntries);
  if (!from.job_key().empty() && from.job_key().size() != 32) {
    rules.Fail("rank_plan.job_key", "must have 32 bytes");
  }
  if (from.rank_addresses_size() > 0 && Size(from.rank_addresses_size()) != from.ranks()) {
    rules.Fail("rank_plan.rank_addresses", "must have one address for each rank");
  }
  rules.AtMost("rank_plan.rank_addresses", from.rank_addresses_size(), kMaxTableEntries);
  rules.AtMost("rank_plan.listen_addresses", from.listen_addresses_size(), kMaxNics);
  if (!from.user().empty() && !IsLocalUser(from.user())) {
    rules.Fail("rank_plan.user", "must be a user's name or a number");
  }
  if (!rules.ok()) return;
  to.epoch = from.epoch();
  to.generation = from.generation();
  to.job = from.job();
  to.rank = from.rank();
  to.program = from.program();
  to.program_version = from.program_version();
  to.ranks = from.ranks();
  to.version = from.version();
  to.address =
      from.address().empty() ? IpAddress() : rules.Address("rank_plan.address", from.address());
  rules.InRange("rank_plan.listen_port", from.listen_port(), 0, kMaxPort);
  to.listen_port = static_cast<std::uint16_t>(from.listen_port());
  to.offload = from.offload();
  to.urgent = from.urgent();
  to.verbs = from.verbs();
  to.job_key = from.job_key();
  to.user = from.user();
  to.rank_addresses.resize(Size(from.rank_addresses_size()));
  for (std::size_t i = 0; i < to.rank_addresses.size(); ++i) {
    to.rank_addresses[i] =
        rules.Address({"rank_plan.rank_addresses", i}, from.rank_addresses(static_cast<int>(i)));
  }
  to.listen_addresses.resize(Size(from.listen_addresses_size()));
  for (std::size_t i = 0; i < to.listen_addresses.size(); ++i) {
    to.listen_addresses[i] = rules.Address({"rank_plan.listen_addresses", i},
                                           from.listen_addresses(static_cast<int>(i)));
  }
  to.peers.resize(Size(from.peers_size()));
  for (std::size_t i = 0; i < to.peers.size(); ++i) {
    const v1::PeerPorts& peer = from.peers(static_cast<int>(i));
    const Field field("rank_plan.peers", i);
    to.peers[i].rank = peer.rank();
    to.peers[i].address = rules.Address({field, "address"}, peer.address());
    rules.AtMost({field, "source_ports"}, peer.source_ports_size(), kMaxPathsPerFlow);
    DecodeSmall({field, "source_ports"}, Column(peer.source_ports()), rules,
                to.peers[i].source_ports);
    rules.InRange({field, "destination_port"}, peer.destination_port(), 0, kMaxPort);
    if (peer.channels_size() > 0) {  // senders of the first minor version have none
      rules.SameLength({field, "channels"}, peer.channels_size(), {field, "source_ports"},
                       peer.source_ports_size());
    }
    to.peers[i].destination_port = static_cast<std::uint16_t>(peer.destination_port());
    to.peers[i].channels.assign(peer.channels().begin(), peer.channels().end());
    to.peers[i].channels.resize(Size(peer.source_ports_size()));
    to.peers[i].connections.clear();
    DecodeNics(field, peer, rules, to.peers[i]);
  }
}

void DecodeBody(const v1::CollectiveReport& from, Rules& rules, CollectiveReport& to) {
  rules.Name("collective_report.job", from.job(), kRequired);
  rules.Name("collective_report.collective", from.collective(), kOptional);
  rules.InRange("collective_report.bytes", from.bytes(), 0, kMaxQuantity);
  rules.InRange("collective_report.duration_us", from.duration_us(), 0, kMaxDurationUs);
  rules.Text("collective_report.error", from.error());
  to.job = from.job();
  to.rank = from.rank();
  to.sequence = from.sequence();
  to.collective = from.collective();
  to.bytes = from.bytes();
  to.duration_us = from.duration_us();
  to.error = from.error();
}

}  // namespace espalier::wire
