#include "controller/discovery/probe_evidence.h"

#include <fmt/format.h>

namespace espalier::discovery {
namespace {

// Multicast, broadcast and loopback addresses, and none.
bool IsOfNoHost(const IpAddress& address) {
  if (address.IsNone()) return true;
  if (address.IsV4()) {
    const std::uint32_t first = address.V4() >> 24U;
    return first == 0 || first == 127 || first >= 224;
  }
  return address.bytes()[0] == 0xff || address == IpAddress::Parse("::1").value();
}

}  // namespace

std::size_t ProbeEvidence::KeyHash::operator()(const Key& key) const {
  const std::uint64_t ends = std::uint64_t{key.source} << 32U | key.destination;
  return static_cast<std::size_t>((ends * 65'537 + key.port) * 0x9e3779b97f4a7c15);
}

Result<EndpointIndex> ProbeEvidence::AddEndpoint(const Endpoint& endpoint) {
  if (IsOfNoHost(endpoint.address)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} reports the address {}, which no host can have (correct the NICs "
                            "in the agent's configuration)",
                            endpoint.host, endpoint.address.ToString()));
  }
  const auto known = by_address_.find(endpoint.address);
  if (known != by_address_.end()) {
    const Endpoint& other = endpoints_[known->second];
    if (other.host == endpoint.host) return known->second;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} and {} both report the address {} (each NIC needs its own)",
                            other.host, endpoint.host, endpoint.address.ToString()));
  }
  if (endpoints_.size() >= kMostEndpoints) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{} has a NIC beyond the {} that discovery covers", endpoint.host,
                            kMostEndpoints));
  }
  const auto index = static_cast<EndpointIndex>(endpoints_.size());
  endpoints_.push_back(endpoint);
  by_address_.emplace(endpoint.address, index);
  return index;
}

EndpointIndex ProbeEvidence::FindEndpoint(const IpAddress& address) const {
  const auto found = by_address_.find(address);
  return found == by_address_.end() ? EndpointIndex{kMostEndpoints} : found->second;
}

bool ProbeEvidence::Ask(EndpointIndex source, EndpointIndex destination, std::uint16_t port,
                        std::uint8_t ttl) {
  if (ttl == 0 || ttl > kMostHops) return false;
  const Key key{source, destination, port};
  auto found = by_key_.find(key);
  if (found == by_key_.end()) {
    if (traces_.size() >= kMostTraces) return false;
    found = by_key_.emplace(key, traces_.size()).first;
    traces_.push_back({.source = source, .destination = destination, .port = port});
  }
  Trace::Hop& hop = traces_[found->second].hops[ttl - 1U];
  if (hop == Trace::Hop::kAnswered) return false;
  hop = Trace::Hop::kSilent;
  ++probes_;
  return true;
}

bool ProbeEvidence::Answer(EndpointIndex source, EndpointIndex destination, std::uint16_t port,
                           std::uint8_t ttl, const IpAddress& responder) {
  const auto found = by_key_.find(Key{source, destination, port});
  const bool is_asked = found != by_key_.end() && ttl > 0 && ttl <= kMostHops &&
                        traces_[found->second].hops[ttl - 1U] == Trace::Hop::kSilent;
  const bool has_room = responders_.size() < kMostResponders || responders_.contains(responder);
  if (!is_asked || !has_room || IsOfNoHost(responder)) {
    ++refused_;
    return false;
  }
  ++responders_[responder];
  Trace& trace = traces_[found->second];
  trace.hops[ttl - 1U] = Trace::Hop::kAnswered;
  trace.responders[ttl - 1U] = responder;
  ++answers_;
  return true;
}

}  // namespace espalier::discovery
