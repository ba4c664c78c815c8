#include "controller/link_tests/trains/test_routes.h"

#include <algorithm>
#include <map>
#include <set>

#include "controller/paths/models/path_reach.h"
#include "proto/messages.h"

namespace espalier::controller {

using fabric::DirectedLink;
using fabric::NodeId;
using fabric::PathIndex;
using fabric::PortEntry;
using fabric::PortKey;
using fabric::PortTrust;

namespace {

constexpr std::size_t kFewSwitches = 9;
constexpr std::size_t kPairsPerRefresh = 256;
constexpr Duration kAskAgain = std::chrono::seconds(2);

// The distances at which partners are.
std::vector<std::size_t> Distances(std::size_t switches) {
  std::vector<std::size_t> distances;
  if (switches <= kFewSwitches) {
    for (std::size_t distance = 1; distance < switches; ++distance) distances.push_back(distance);
  } else {
    for (std::size_t distance = 1; distance <= switches / 2; distance *= 2) {
      distances.push_back(distance);
      distances.push_back(switches - distance);
    }
  }
  return distances;
}

}  // namespace

TestRoutes::TestRoutes(const State& state, PathLearner& learner, bool hashes_protocol)
    : state_(state),
      learner_(learner),
      hashes_protocol_(hashes_protocol),
      over_(2 * state.topology.links().size()),
      from_(state.topology.nodes().size()) {
  MakePairs();
}

void TestRoutes::MakePairs() {
  std::map<NodeId, std::vector<NodeId>> nics_of;  // by leaf
  std::vector<NodeId> leaves;
  for (std::size_t i = 0; i < state_.topology.nodes().size(); ++i) {
    const NodeId nic(static_cast<std::int32_t>(i));
    const auto attachment = state_.paths.FindAttachment(nic);
    // Trains leave by one uplink, whatever their port (agent/probe/sockets/raw_train_socket.h).
    if (!attachment || !attachment->uplink) continue;
    if (state_.topology.node(nic).addresses.empty()) continue;
    auto& nics = nics_of[attachment->leaf];
    if (nics.empty()) leaves.push_back(attachment->leaf);
    nics.push_back(nic);
  }
  std::map<NodeId, std::uint32_t> place;
  for (const auto& [leaf, nics] : nics_of) {
    for (std::size_t i = 0; i < nics.size(); ++i) place[nics[i]] = static_cast<std::uint32_t>(i);
  }
  std::set<std::pair<NodeId, NodeId>> partners;
  for (std::size_t at = 0; at < leaves.size(); ++at) {
    for (const std::size_t distance : Distances(leaves.size())) {
      const auto& here = nics_of[leaves[at]];
      const auto& there = nics_of[leaves[(at + distance) % leaves.size()]];
      for (std::size_t i = 0; i < std::max(here.size(), there.size()); ++i) {
        const NodeId a = here[i % here.size()];
        const NodeId b = there[i % there.size()];
        partners.emplace(std::min(a, b), std::max(a, b));
      }
    }
  }
  for (const auto& [a, b] : partners) {
    AddPair(a, b, place[a]);
    AddPair(b, a, place[b]);
  }
  asked_.resize(pairs_.size());
  ports_.resize(route_count_);
}

void TestRoutes::AddPair(NodeId source, NodeId destination, std::uint32_t place) {
  const auto from = state_.paths.FindAttachment(source);
  const auto to = state_.paths.FindAttachment(destination);
  const auto paths = state_.paths.Between(from->leaf, to->leaf);
  if (from->leaf == to->leaf || paths.empty()) return;
  const auto index = static_cast<std::uint32_t>(pairs_.size());
  const auto stride = static_cast<std::uint32_t>(
      std::max<std::size_t>(1, (paths.size() + kMostRoutesOfPair - 1) / kMostRoutesOfPair));
  // Of very many paths, the NICs of a switch have different ones, and so have a NIC's pairs.
  const auto partners = static_cast<std::uint32_t>(from_[source.Index()].size());
  const std::uint32_t first_path = (place + partners) % stride;
  pairs_.push_back({.source = source,
                    .destination = destination,
                    .uplink = *from->uplink,
                    .downlink = *to->Downlink(),
                    .paths = paths,
                    .first_route = route_count_,
                    .first_path = first_path,
                    .stride = stride});
  from_[source.Index()].push_back(index);
  for (std::size_t path = first_path; path < paths.size(); path += stride) {
    for (const DirectedLink hop : paths[path].hops) over_[hop.Index()].push_back(route_count_);
    pair_of_.push_back(index);
    ++route_count_;
  }
  pairs_.back().route_count = route_count_ - pairs_.back().first_route;
}

PathIndex TestRoutes::PathOf(std::uint32_t route) const {
  const TestPair& pair = PairOf(route);
  const std::uint32_t path = pair.first_path + (route - pair.first_route) * pair.stride;
  return PathIndex(static_cast<std::int32_t>(path));
}

std::span<const DirectedLink> TestRoutes::HopsOf(std::uint32_t route) const {
  return PairOf(route).paths[PathOf(route).Index()].hops;
}

bool TestRoutes::AreSeries(DirectedLink first, DirectedLink second,
                           const std::function<bool(fabric::LinkId)>& is_out) const {
  return std::ranges::all_of(over_[first.Index()], [&](std::uint32_t route) {
    return std::ranges::any_of(HopsOf(route), [&](DirectedLink hop) {
      return hop == second || (is_out && is_out(hop.link));
    });
  });
}

PortKey TestRoutes::KeyOf(std::uint32_t route, std::uint8_t protocol) const {
  const TestPair& pair = PairOf(route);
  return {.source = pair.source,
          .destination = pair.destination,
          .protocol = hashes_protocol_ ? protocol : wire::kProtocolUdp,
          .destination_port = kDestinationPort};
}

std::optional<std::uint16_t> TestRoutes::PortOf(std::uint32_t route, std::uint8_t protocol) const {
  const std::uint16_t port = protocol == wire::kProtocolTcp ? ports_[route].tcp : ports_[route].udp;
  return port == 0 ? std::nullopt : std::optional(port);
}

std::vector<std::uint32_t> TestRoutes::RoutesOf(const PortKey& key) const {
  std::vector<std::uint32_t> routes;
  for (const std::uint32_t pair : From(key.source)) {
    if (pairs_[pair].destination != key.destination) continue;
    for (std::uint32_t i = 0; i < pairs_[pair].route_count; ++i) {
      routes.push_back(pairs_[pair].first_route + i);
    }
  }
  return routes;
}

bool TestRoutes::ReadPorts(std::uint32_t pair, TimePoint now) {
  const std::uint32_t first = pairs_[pair].first_route;
  const std::uint32_t end = first + pairs_[pair].route_count;
  std::fill(ports_.begin() + first, ports_.begin() + end, Ports{});
  const bool may_ask = asked_[pair] == TimePoint{} || now - asked_[pair] >= kAskAgain;
  bool has_asked = false;
  for (const std::uint8_t protocol : {wire::kProtocolUdp, wire::kProtocolTcp}) {
    const PortKey key = KeyOf(first, protocol);
    std::map<PathIndex, PortEntry> best;
    for (const PortEntry& entry : state_.path_map.Ports(key)) {
      if (entry.trust == PortTrust::kPredicted && learner_.IsQuarantined(key, entry.port)) continue;
      const auto rank = [](const PortEntry& of) {
        return of.trust == PortTrust::kVerified ? 0 : of.trust == PortTrust::kPredicted ? 1 : 2;
      };
      const auto [at, is_new] = best.try_emplace(entry.path, entry);
      if (!is_new && rank(entry) < rank(at->second)) at->second = entry;
    }
    if (pairs_[pair].paths.size() == 1) {  // every port takes the only path
      best = {{PathIndex(0), {.port = fabric::kFirstRocePort, .path = PathIndex(0)}}};
    }
    for (std::uint32_t route = first; route < end; ++route) {
      const auto known = best.find(PathOf(route));
      if (known != best.end() && known->second.trust != PortTrust::kReverify) {
        (protocol == wire::kProtocolTcp ? ports_[route].tcp : ports_[route].udp) =
            known->second.port;
      } else if (may_ask) {
        // A model may predict it at once; it is read the next time.
        if (known != best.end()) learner_.Verify(key, known->second.port);
        const bool has_port = learner_.RequestPort(key, PathOf(route)).has_value();
        has_asked = has_asked || !has_port;
      }
    }
  }
  if (has_asked) asked_[pair] = now;
  return has_asked;
}

bool TestRoutes::Refresh(TimePoint now, const std::function<bool(NodeId)>& is_ready) {
  bool has_asked = false;
  for (std::size_t i = 0; i < std::min(kPairsPerRefresh, pairs_.size()); ++i) {
    const std::uint32_t pair = next_pair_;
    next_pair_ = (next_pair_ + 1) % static_cast<std::uint32_t>(pairs_.size());
    if (!is_ready(pairs_[pair].source) || !is_ready(pairs_[pair].destination)) continue;
    has_asked = ReadPorts(pair, now) || has_asked;
  }
  return has_asked;
}

}  // namespace espalier::controller
