#include "controller/link_tests/trains/train_orders.h"

#include <gtest/gtest.h>

#include <set>

#include "controller/link_tests/trains/train_secrets.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

IpAddress Address(std::uint32_t host) { return IpAddress::FromV4(0x0A00'0000 + host); }

TEST(TrainOrders, TellEachAgentOnceWhatToSendAndWhatToExpect) {
  TrainOrders orders({.destination_port = 4'796, .packets = 8, .gap = 1ms, .patience = 400ms});
  const std::string key(16, 'k');
  const auto add = [&](std::uint32_t from, std::uint32_t to, std::uint64_t number) {
    orders.Add({.sender = AgentId(static_cast<std::int32_t>(from)),
                .receiver = AgentId(static_cast<std::int32_t>(to)),
                .source = Address(from),
                .destination = Address(to),
                .key = key},
               {.number = number,
                .source_port = 50'000,
                .protocol = wire::kProtocolTcp,
                .start_us = 1'000 * number});
  };
  add(1, 2, 10);
  add(1, 3, 11);
  add(1, 2, 12);
  add(2, 1, 13);
  const auto taken = orders.Take();
  ASSERT_EQ(taken.size(), 3U);
  const wire::TrainOrder& of_1 = taken.at(AgentId(1));
  EXPECT_EQ(of_1.key, key);
  EXPECT_EQ(of_1.destination_port, 4'796);
  EXPECT_EQ(of_1.gap_us, 1'000U);
  EXPECT_EQ(of_1.addresses, (std::vector{Address(1), Address(2), Address(3)}));
  ASSERT_EQ(of_1.trains.size(), 3U);
  EXPECT_EQ(of_1.trains[2].source, 0U);
  EXPECT_EQ(of_1.trains[2].destination, 1U);
  ASSERT_EQ(of_1.expected.size(), 1U);
  EXPECT_EQ(of_1.expected[0].number, 13U);
  EXPECT_EQ(of_1.expected[0].until_us, 13'000U + 8'000 + 400'000);
  EXPECT_EQ(of_1.addresses[of_1.expected[0].source], Address(2));
  EXPECT_EQ(of_1.expected[0].source_port, 50'000);
  EXPECT_EQ(of_1.expected[0].protocol, wire::kProtocolTcp);
  EXPECT_EQ(taken.at(AgentId(3)).expected[0].number, 11U);
  EXPECT_NE(taken.at(AgentId(3)).key, key) << "a receiver does not learn it";
  EXPECT_TRUE(orders.Take().empty());
}

TEST(TrainSecrets, NumbersAndKeysCannotBePredicted) {
  TrainSecrets one({});
  TrainSecrets two({});
  std::set<std::uint64_t> numbers;
  for (int i = 0; i < 1'000; ++i) {
    numbers.insert(one.NextNumber());
    numbers.insert(two.NextNumber());
  }
  EXPECT_EQ(numbers.size(), 2'000U);
  EXPECT_EQ(one.KeyOf(AgentId(1)), one.KeyOf(AgentId(1)));
  EXPECT_NE(one.KeyOf(AgentId(1)), one.KeyOf(AgentId(2)));
  EXPECT_NE(one.KeyOf(AgentId(1)), two.KeyOf(AgentId(1)));
  EXPECT_EQ(one.KeyOf(AgentId(1)).size(), wire::kTrainKeyBytes);
}

TEST(TrainSecrets, OfASeedRepeat) {
  TrainSecrets one(7);
  TrainSecrets two(7);
  EXPECT_EQ(one.NextNumber(), two.NextNumber());
  EXPECT_EQ(one.KeyOf(AgentId(3)), two.KeyOf(AgentId(3)));
  EXPECT_NE(one.KeyOf(AgentId(3)), TrainSecrets(8).KeyOf(AgentId(3)));
}

}  // namespace
}  // namespace espalier::controller
