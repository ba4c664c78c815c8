#pragma once

#include <ns3/ipv4-header.h>
#include <ns3/ipv4-route.h>
#include <ns3/ipv4-routing-protocol.h>
#include <ns3/ipv4.h>

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

namespace espalier::offline {

// Routing of a simulated node by a table: the next hop of each address, which is that of one
// message. Each message has two addresses, one for either direction, and a packet for either takes
// the links that were given, as a source port of its own would make it. The node needs no
// addresses on its interfaces.
class PathRouting : public ns3::Ipv4RoutingProtocol {
 public:
  // Packets from `source` to `destination` leave by this device of the node.
  void AddHop(ns3::Ipv4Address source, ns3::Ipv4Address destination,
              const ns3::Ptr<ns3::NetDevice>& device);
  // Packets to this address are for the node itself.
  void AddOwn(ns3::Ipv4Address address) { own_.insert(address.Get()); }

  ns3::Ptr<ns3::Ipv4Route> RouteOutput(ns3::Ptr<ns3::Packet> packet, const ns3::Ipv4Header& header,
                                       ns3::Ptr<ns3::NetDevice> device,
                                       ns3::Socket::SocketErrno& error) override;
  bool RouteInput(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header& header,
                  ns3::Ptr<const ns3::NetDevice> device, UnicastForwardCallback forward,
                  MulticastForwardCallback forward_to_many, LocalDeliverCallback deliver,
                  ErrorCallback refuse) override;

  void NotifyInterfaceUp(std::uint32_t /*interface*/) override {}
  void NotifyInterfaceDown(std::uint32_t /*interface*/) override {}
  void NotifyAddAddress(std::uint32_t /*interface*/,
                        ns3::Ipv4InterfaceAddress /*address*/) override {}
  void NotifyRemoveAddress(std::uint32_t /*interface*/,
                           ns3::Ipv4InterfaceAddress /*address*/) override {}
  void SetIpv4(ns3::Ptr<ns3::Ipv4> ipv4) override { ipv4_ = ipv4; }
  void PrintRoutingTable(ns3::Ptr<ns3::OutputStreamWrapper> /*stream*/,
                         ns3::Time::Unit /*unit*/) const override {}

 private:
  ns3::Ptr<ns3::Ipv4> ipv4_;
  std::unordered_map<std::uint32_t, ns3::Ptr<ns3::Ipv4Route>> hops_;  // by destination
  std::unordered_set<std::uint32_t> own_;
};

}  // namespace espalier::offline
