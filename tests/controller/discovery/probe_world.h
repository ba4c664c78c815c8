#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/topology.h"
#include "controller/discovery/discovery.h"

namespace espalier::discovery {

// What is wrong with a fabric, or with the answers of its switches.
struct Faults {
  double lost = 0;                   // share of answers
  std::set<std::string> silent;      // switches that never answer
  std::set<std::string> misleading;  // switches that answer from where the error leaves
  bool has_loopbacks = false;        // each switch answers with one address on links to switches
  bool hosts_answer = true;          // RDMA devices do not
  // The address of the end of a link at a node, instead of the one of the topology.
  std::map<std::pair<std::string, std::string>, IpAddress> addresses;
};

// A fabric that answers probes. Every switch chooses among shortest next hops by a hash of its own.
class ProbeWorld {
 public:
  ProbeWorld(fabric::TopologySpec spec, Faults faults, std::uint64_t seed = 1);

  const fabric::Topology& topology() const { return topology_; }
  std::vector<Endpoint> Endpoints() const;
  // The answer; none if there is none.
  std::optional<IpAddress> Probe(const IpAddress& source, const IpAddress& destination,
                                 std::uint16_t port, std::uint8_t ttl);
  void SetState(const std::string& link, fabric::LinkState state);
  // The most answers of one switch.
  std::size_t BusiestSwitch() const;

  // What is different in a discovered fabric: "" if switches, roles, links, their addresses and the
  // places of NICs are those of the topology.
  std::string Difference(const DiscoveredFabric& found, const std::vector<Endpoint>& nics) const;
  std::string Difference(const Discovery& found) const {
    return Difference(found.fabric(), found.evidence().endpoints());
  }

 private:
  using Links = std::vector<fabric::DirectedLink>;

  // The shortest next hops from each node to a leaf.
  const std::vector<Links>& RoutesTo(fabric::NodeId leaf);
  // The links that a probe takes: to the first switch, and so on.
  Links PathOf(fabric::NodeId source, fabric::NodeId destination, std::uint16_t port);
  std::uint64_t Hash(fabric::NodeId at, fabric::NodeId source, fabric::NodeId destination,
                     std::uint16_t port) const;
  IpAddress AddressAt(fabric::LinkId link, fabric::NodeId node) const;
  IpAddress AnswerOf(fabric::DirectedLink in, fabric::NodeId source, std::uint16_t port);
  fabric::DirectedLink Uplink(fabric::NodeId nic) const;

  fabric::Topology topology_;
  const Faults faults_;
  const std::uint64_t seed_;
  std::mt19937_64 random_;
  std::map<fabric::NodeId, std::vector<Links>> routes_;
  std::map<fabric::NodeId, std::size_t> answers_;
};

struct Discovered {
  std::unique_ptr<Discovery> discovery;
  double seconds = 0;  // that the batches took at least
};
// Runs discovery until nothing more is to be probed.
Discovered Discover(ProbeWorld& world, const ProbeChoice::Options& options = {});
// Continues it after more endpoints were added.
void Continue(ProbeWorld& world, Discovered& discovered);

}  // namespace espalier::discovery
