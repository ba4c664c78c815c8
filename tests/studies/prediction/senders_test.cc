#include "tests/studies/prediction/senders.h"

#include <gtest/gtest.h>

#include "common/fabric/builders.h"

namespace espalier::offline {
namespace {

// Four hosts on two leaves; all links carry 100 Gbit/s, that is 100 bits per nanosecond.
class SendersTest : public testing::Test {
 protected:
  SendersTest() {
    const auto node = [&](const char* id) { return *topology_.FindNode(id); };
    Job job{.id = "J", .phases = {{}}};
    for (const auto& [a, b] :
         {std::pair("h0", "h2"), std::pair("h1", "h3"), std::pair("h0", "h1")}) {
      Exchange& ring = job.phases[0].exchanges.emplace_back();
      ring.round_bytes = 1;
      ring.flows = {{node(a), node(b)}, {node(b), node(a)}};
    }
    workload_ = *Workload::Build(topology_, {job});
  }
  const SimulatedFlow& Flow(std::uint32_t f) const { return workload_->flows()[f]; }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}));
  fabric::PathTable paths_{topology_};
  std::optional<Workload> workload_;
};

TEST_F(SendersTest, ShareALinkUntilOneIsReroutedOrEnds) {
  Senders senders(topology_, paths_, workload_->flows().size());
  EXPECT_EQ(senders.PathsOf(Flow(0)).size(), 2U);
  senders.Start(0, Flow(0), 11, 10'000, 0);  // h0 to h2
  senders.Start(2, Flow(2), 12, 10'000, 0);  // h1 to h3, over the same spine
  senders.Settle(0);
  EXPECT_EQ(senders.NextEnd(), 200);
  EXPECT_NEAR(senders.Left(0, 100), 5'000, 1);
  senders.Reroute(2, Flow(2), 1, 100);
  senders.Settle(100);
  EXPECT_EQ(senders.At(2).path, 1);
  EXPECT_EQ(senders.NextEnd(), 150);
  const auto ended = senders.TakeEnded(150);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0] + ended[1], 2U);
  EXPECT_TRUE(senders.At(0).is_sent);
  EXPECT_TRUE(senders.At(2).is_sent);
  EXPECT_EQ(senders.At(0).serial, 11U);
  EXPECT_EQ(senders.At(1).serial, 0U);
}

TEST_F(SendersTest, NeedNoPathWithinALeafAndSendAgain) {
  Senders senders(topology_, paths_, workload_->flows().size());
  EXPECT_TRUE(senders.PathsOf(Flow(4)).empty());
  for (const std::uint64_t serial : {1, 2}) {
    senders.Start(4, Flow(4), serial, 500, -1);
    EXPECT_FALSE(senders.At(4).is_sent);
    const auto now = static_cast<std::int64_t>(serial * 1'000);
    senders.Settle(now);
    EXPECT_EQ(senders.NextEnd(), now + 5);
    ASSERT_EQ(senders.TakeEnded(now + 5).size(), 1U);
    EXPECT_TRUE(senders.At(4).is_sent);
    EXPECT_EQ(senders.At(4).serial, serial);
  }
}

}  // namespace
}  // namespace espalier::offline
