#include "tests/studies/packets/path_routing.h"

#include <gtest/gtest.h>
#include <ns3/point-to-point-net-device.h>

namespace espalier::offline {
namespace {

TEST(PathRoutingTest, SendsEachAddressByItsOwnDevice) {
  PathRouting routing;
  const auto first = ns3::CreateObject<ns3::PointToPointNetDevice>();
  const auto second = ns3::CreateObject<ns3::PointToPointNetDevice>();
  routing.AddHop("10.0.0.1", "11.0.0.1", first);
  routing.AddHop("10.0.0.2", "11.0.0.2", second);
  ns3::Ipv4Header header;
  ns3::Socket::SocketErrno error = ns3::Socket::ERROR_INVAL;
  header.SetDestination("11.0.0.2");
  const auto route = routing.RouteOutput(nullptr, header, nullptr, error);
  ASSERT_NE(route, nullptr);
  EXPECT_EQ(error, ns3::Socket::ERROR_NOTERROR);
  EXPECT_EQ(route->GetOutputDevice(), second);
  EXPECT_EQ(route->GetSource(), ns3::Ipv4Address("10.0.0.2"));
  header.SetDestination("11.0.0.3");
  EXPECT_EQ(routing.RouteOutput(nullptr, header, nullptr, error), nullptr);
  EXPECT_EQ(error, ns3::Socket::ERROR_NOROUTETOHOST);
}

TEST(PathRoutingTest, RefusesPacketsToAddressesWithoutAHop) {
  PathRouting routing;
  ns3::Ipv4Header header;
  header.SetDestination("11.0.0.3");
  int refused = 0;
  const ns3::Ipv4RoutingProtocol::ErrorCallback count(
      [&refused](ns3::Ptr<const ns3::Packet>, const ns3::Ipv4Header&, ns3::Socket::SocketErrno) {
        ++refused;
      });
  EXPECT_FALSE(
      routing.RouteInput(ns3::Create<ns3::Packet>(10), header, nullptr, {}, {}, {}, count));
  EXPECT_EQ(refused, 1);
}

}  // namespace
}  // namespace espalier::offline
