#include "tests/studies/packets/path_routing.h"

namespace espalier::offline {

using ns3::Ipv4Address;
using ns3::Ipv4Header;
using ns3::Ipv4Route;
using ns3::NetDevice;
using ns3::Packet;
using ns3::Ptr;
using ns3::Socket;

void PathRouting::AddHop(Ipv4Address source, Ipv4Address destination,
                         const Ptr<NetDevice>& device) {
  const auto route = ns3::Create<Ipv4Route>();
  route->SetSource(source);
  route->SetDestination(destination);
  route->SetGateway(Ipv4Address::GetZero());
  route->SetOutputDevice(device);
  hops_[destination.Get()] = route;
}

Ptr<Ipv4Route> PathRouting::RouteOutput(Ptr<Packet> /*packet*/, const Ipv4Header& header,
                                        Ptr<NetDevice> /*device*/, Socket::SocketErrno& error) {
  const auto hop = hops_.find(header.GetDestination().Get());
  error = hop == hops_.end() ? Socket::ERROR_NOROUTETOHOST : Socket::ERROR_NOTERROR;
  return hop == hops_.end() ? nullptr : hop->second;
}

bool PathRouting::RouteInput(Ptr<const Packet> packet, const Ipv4Header& header,
                             Ptr<const NetDevice> device, UnicastForwardCallback forward,
                             MulticastForwardCallback /*forward_to_many*/,
                             LocalDeliverCallback deliver, ErrorCallback refuse) {
  const std::uint32_t destination = header.GetDestination().Get();
  if (own_.contains(destination)) {
    deliver(packet, header, static_cast<std::uint32_t>(ipv4_->GetInterfaceForDevice(device)));
    return true;
  }
  const auto hop = hops_.find(destination);
  if (hop == hops_.end()) {
    refuse(packet, header, Socket::ERROR_NOROUTETOHOST);
    return false;
  }
  forward(hop->second, packet, header);
  return true;
}

}  // namespace espalier::offline
