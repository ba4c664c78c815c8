#include "tests/studies/packets/packet_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "tests/studies/packets/two_leaves.h"

namespace espalier::offline {
namespace {

constexpr std::int64_t kSent = 1'000'000;
constexpr double kLeast = kSent * 8 / 100e9;  // seconds at the rate of a link

class PacketsOnLinks : public testing::Test {
 protected:
  PacketMessage Send(std::initializer_list<std::string_view> nodes,
                     std::int64_t start_ns = 0) const {
    return {.start_ns = start_ns, .bytes = kSent, .links = LinksThrough(topology_, nodes)};
  }
  PacketOutcome Run(const std::vector<PacketMessage>& messages,
                    const PacketOptions& options = {}) const {
    auto outcome = SendPackets(topology_, messages, options);
    EXPECT_TRUE(outcome.has_value()) << outcome.error().message;
    return outcome.value_or(PacketOutcome{.seconds = std::vector<double>(messages.size(), -1),
                                          .link_bytes = std::vector<std::int64_t>(100)});
  }

  fabric::Topology topology_ = TwoLeaves();
};

TEST_F(PacketsOnLinks, AMessageAloneTakesItsBytesAtTheRateOfItsLinks) {
  const PacketMessage message = Send({"h0", "leaf0", "spine0", "leaf1", "h2"});
  const PacketOutcome outcome = Run({message});
  EXPECT_GT(outcome.seconds[0], kLeast);
  EXPECT_LT(outcome.seconds[0], 1.6 * kLeast);  // the round trips of connecting are a fifth of it
  EXPECT_EQ(outcome.dropped_packets, 0);
  EXPECT_GT(outcome.events, 4U * kSent / 4096);
  // The switches agree that it took these links, and no other carried data.
  for (std::size_t link = 0; link < outcome.link_bytes.size(); ++link) {
    const bool is_taken = std::ranges::find(message.links, link) != message.links.end();
    if (is_taken) {
      EXPECT_GT(outcome.link_bytes[link], kSent) << link;
      EXPECT_LT(outcome.link_bytes[link], 1.02 * kSent) << link;
    } else {
      EXPECT_LT(outcome.link_bytes[link], 0.02 * kSent) << link;
    }
  }
}

TEST_F(PacketsOnLinks, MessagesOnOneLinkTakeTwiceAndThoseApartDoNot) {
  const double alone = Run({Send({"h0", "leaf0", "spine0", "leaf1", "h2"})}).seconds[0];
  const PacketOutcome together = Run({Send({"h0", "leaf0", "spine0", "leaf1", "h2"}),
                                      Send({"h1", "leaf0", "spine0", "leaf1", "h3"})});
  EXPECT_GT(std::ranges::max(together.seconds), 1.7 * alone);
  EXPECT_LT(std::ranges::max(together.seconds), 2.3 * alone);
  EXPECT_GT(together.longest_queue_bytes, 50'000);
  EXPECT_GT(together.marked_packets, 0);
  EXPECT_EQ(together.dropped_packets, 0);
  const PacketOutcome apart = Run({Send({"h0", "leaf0", "spine0", "leaf1", "h2"}),
                                   Send({"h1", "leaf0", "spine1", "leaf1", "h3"})});
  EXPECT_LT(std::ranges::max(apart.seconds), 1.05 * alone);
  EXPECT_LT(apart.longest_queue_bytes, 20'000);
}

TEST_F(PacketsOnLinks, ALaterMessageIsTimedFromItsStart) {
  const double alone = Run({Send({"h0", "leaf0", "spine0", "leaf1", "h2"})}).seconds[0];
  const PacketOutcome outcome = Run({Send({"h0", "leaf0", "spine0", "leaf1", "h2"}),
                                     Send({"h1", "leaf0", "spine0", "leaf1", "h3"}, 1'000'000)});
  EXPECT_NEAR(outcome.seconds[0], alone, 0.01 * alone);
  EXPECT_NEAR(outcome.seconds[1], alone, 0.01 * alone);
}

TEST_F(PacketsOnLinks, ASlowLinkTakesItsRate) {
  topology_ = TwoLeaves(50);
  const PacketOutcome outcome = Run({Send({"h0", "leaf0", "spine1", "leaf1", "h2"})});
  EXPECT_GT(outcome.seconds[0], 2 * kLeast);
  EXPECT_LT(outcome.seconds[0], 2.6 * kLeast);
}

TEST_F(PacketsOnLinks, CubicLosesPacketsInShortQueuesAndArrives) {
  const PacketOutcome outcome = Run({Send({"h0", "leaf0", "spine0", "leaf1", "h2"}),
                                     Send({"h1", "leaf0", "spine0", "leaf1", "h3"})},
                                    {.transport = Transport::kCubic, .queue_bytes = 60'000});
  EXPECT_GT(outcome.dropped_packets, 0);
  EXPECT_EQ(outcome.marked_packets, 0);
  EXPECT_GT(std::ranges::min(outcome.seconds), 0);
}

TEST_F(PacketsOnLinks, EqualRunsAreEqual) {
  const std::vector<PacketMessage> messages = {Send({"h0", "leaf0", "spine0", "leaf1", "h2"}),
                                               Send({"h1", "leaf0", "spine0", "leaf1", "h3"})};
  const PacketOutcome first = Run(messages);
  const PacketOutcome second = Run(messages);
  EXPECT_EQ(first.seconds, second.seconds);
  EXPECT_EQ(first.events, second.events);
}

TEST_F(PacketsOnLinks, RefusesMoreThanItCanSimulateAndEndsWhenCancelled) {
  PacketMessage message = Send({"h0", "leaf0", "spine0", "leaf1", "h2"});
  const auto cancelled =
      SendPackets(topology_, {&message, 1}, {.is_cancelled = [] { return true; }});
  ASSERT_FALSE(cancelled.has_value());
  EXPECT_EQ(cancelled.error().code, ErrorCode::kUnavailable);
  message.bytes = std::int64_t{1} << 50U;
  const auto large = SendPackets(topology_, {&message, 1}, {});
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(SendPackets(topology_, {}, {}).has_value());
}

}  // namespace
}  // namespace espalier::offline
