#include "controller/offline/simulation/job.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::offline {
namespace {

using fabric::NodeId;

std::string Text(const Exchange& exchange) {
  std::string text;
  for (const Exchange::Flow& flow : exchange.flows) {
    text +=
        std::to_string(flow.source.value()) + ">" + std::to_string(flow.destination.value()) + " ";
  }
  return text + std::to_string(exchange.round_bytes) + " x " + std::to_string(exchange.rounds);
}

TEST(Exchange, HasTheEdgesOfItsCollective) {
  const std::vector<NodeId> nics = {NodeId(1), NodeId(2), NodeId(3)};
  EXPECT_EQ(Text(MakeRing(nics, 10)), "1>2 2>3 3>1 4 x 4");
  EXPECT_EQ(Text(MakeChain(nics, 10)), "1>2 2>3 10 x 1");
  EXPECT_EQ(Text(MakeAllToAll(nics, 10)), "1>2 1>3 2>3 2>1 3>1 3>2 4 x 1");
  const std::vector<NodeId> five = {NodeId(1), NodeId(2), NodeId(3), NodeId(4), NodeId(5)};
  EXPECT_EQ(Text(MakeReduceTree(five, 10)), "2>1 3>1 4>2 5>2 10 x 1");
  EXPECT_EQ(Text(MakeBroadcastTree(five, 10)), "1>2 1>3 2>4 2>5 10 x 1");
}

}  // namespace
}  // namespace espalier::offline
