#include "collective/runtime/calls/exchange.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace espalier::runtime {
namespace {

using reduce::DataType;

constexpr std::size_t kNegative = std::numeric_limits<std::size_t>::max() - 2;  // -3

template <typename T>
std::string WhyRefused(const Result<T>& result) {
  if (result) return "not refused";
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument) << result.error().message;
  return result.error().message;
}

TEST(Exchange, OfAGatherHasPartsInTheOrderOfTheRanks) {
  std::array<float, 2> input{};
  std::array<float, 9> output{};
  const std::vector<std::size_t> counts = {4, 2, 3};
  const auto root =
      MakeGather(1, 3, input.data(), 2, output.data(), {.counts = counts}, DataType::kF32, 1);
  ASSERT_TRUE(root);
  ASSERT_EQ(root->receives.size(), 3U);
  EXPECT_EQ(root->receives[2].peer, 2);
  EXPECT_EQ(root->receives[2].bytes.data(), reinterpret_cast<std::byte*>(output.data() + 6));
  EXPECT_EQ(root->receives[2].bytes.size(), 12U);
  EXPECT_EQ(root->count, 0U);
  const auto other =
      MakeGather(0, 3, input.data(), 2, nullptr, {.counts = {}, .count = 2}, DataType::kF32, 1);
  ASSERT_TRUE(other);
  EXPECT_TRUE(other->receives.empty());
  ASSERT_EQ(other->sends.size(), 1U);
  EXPECT_EQ(other->sends[0].peer, 1);
  EXPECT_EQ(other->count, 2U);
}

TEST(Exchange, OfAnAlltoallBeginsWithTheNextRank) {
  std::array<std::uint8_t, 6> input{};
  std::array<std::uint8_t, 6> output{};
  const std::vector<std::size_t> counts = {1, 2, 3};
  const auto made = MakeAllToAll(1, 3, input.data(), {.counts = counts}, output.data(),
                                 {.counts = counts}, DataType::kU8);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->sends[1].peer, 2);
  EXPECT_EQ(made->receives[1].peer, 0);
  EXPECT_TRUE(CheckExchange(*made, 3, 1));
}

TEST(Exchange, RefusesCountsThatCannotBe) {
  std::array<double, 4> data{};
  const std::vector<std::size_t> negative = {1, kNegative};
  const std::vector<std::size_t> huge = {std::size_t{1} << 59, std::size_t{1} << 59};
  for (const auto& counts : {negative, huge}) {
    const auto refused = MakeAllToAll(0, 2, data.data(), {.counts = counts}, data.data(),
                                      {.counts = counts}, DataType::kF64);
    EXPECT_NE(WhyRefused(refused).find("rank 1 exceed the address space"), std::string::npos)
        << WhyRefused(refused);
  }
  const std::vector<std::size_t> three = {1, 1, 1};
  EXPECT_EQ(WhyRefused(MakeScatter(0, 2, data.data(), {.counts = three}, data.data(), 1,
                                   DataType::kF64, 0)),
            "3 counts for 2 ranks (give one for each rank)");
  const std::vector<std::size_t> other = {2, 1};
  EXPECT_NE(WhyRefused(
                MakeGather(0, 2, data.data(), 1, data.data(), {.counts = other}, DataType::kF64, 0))
                .find("has 1 elements, but its own count is 2"),
            std::string::npos);
  EXPECT_EQ(WhyRefused(MakeGather(0, 2, data.data(), 1, data.data(), {.counts = {}, .count = 1},
                                  DataType::kF64, 2)),
            "root 2 is not a rank (the group has 2 ranks)");
  EXPECT_NE(WhyRefused(MakeGather(0, 2, nullptr, 1, data.data(), {.counts = {}, .count = 1},
                                  DataType::kF64, 0))
                .find("null"),
            std::string::npos);
  const std::vector<std::size_t> one = {1, 1};
  EXPECT_NE(WhyRefused(MakeAllToAll(0, 2, data.data(), {.counts = one}, data.data() + 2,
                                    {.counts = other}, DataType::kF64))
                .find("gives itself 1 elements and expects 2"),
            std::string::npos);
}

TEST(Exchange, RefusesPeersTagsAndBuffersThatClash) {
  std::array<std::byte, 16> data{};
  const std::span<std::byte> all(data);
  const auto why = [&](std::vector<OutgoingBlock> sends, std::vector<IncomingBlock> receives) {
    Exchange exchange;
    exchange.sends = std::move(sends);
    exchange.receives = std::move(receives);
    return WhyRefused(CheckExchange(exchange, 3, 0));
  };
  EXPECT_EQ(why({{.peer = 1, .bytes = all}}, {}), "not refused");
  EXPECT_EQ(why({{.peer = 1, .bytes = all}, {.peer = 2, .bytes = all}}, {}), "not refused");
  EXPECT_NE(why({{.peer = 3, .bytes = all}}, {}).find("send to rank 3: there is no such rank"),
            std::string::npos);
  EXPECT_NE(why({}, {{.peer = -1, .bytes = all}}).find("receive from rank -1"), std::string::npos);
  EXPECT_NE(why({{.peer = 1, .bytes = all, .tag = 7}, {.peer = 1, .bytes = all, .tag = 7}}, {})
                .find("tag 7 is used twice in one call"),
            std::string::npos);
  EXPECT_NE(why({}, {{.peer = 1, .bytes = all.first(8), .tag = 7},
                     {.peer = 1, .bytes = all.last(8), .tag = 7}})
                .find("receive from rank 1: tag 7 is used twice"),
            std::string::npos);
  EXPECT_NE(why({{.peer = 1, .bytes = all.first(9)}}, {{.peer = 1, .bytes = all.last(8)}})
                .find("overlaps"),
            std::string::npos);
  EXPECT_NE(why({}, {{.peer = 1, .bytes = all.first(9)}, {.peer = 2, .bytes = all.last(8)}})
                .find("overlaps"),
            std::string::npos);
  EXPECT_EQ(why({{.peer = 1, .bytes = all.first(8)}}, {{.peer = 1, .bytes = all.last(8)}}),
            "not refused");
  // What a rank gives itself may stay in its place.
  EXPECT_EQ(why({{.peer = 0, .bytes = all}}, {{.peer = 0, .bytes = all}}), "not refused");
  std::byte* const nothing = nullptr;
  EXPECT_NE(why({}, {{.peer = 1, .bytes = {nothing, 4}}}).find("null"), std::string::npos);
  EXPECT_NE(why({{.peer = 1, .bytes = {data.data(), kNegative}}}, {}).find("negative"),
            std::string::npos);
}

TEST(Exchange, IsDescribedInErrors) {
  Exchange exchange = {.kind = ExchangeKind::kReduction, .count = 5, .element_bytes = 12};
  const CallSignature call = SignatureOf(exchange, 9);
  EXPECT_EQ(FromTag(ToTag(call)), call);
  EXPECT_EQ(Describe(call), "reduction by a function of 5 elements of 12 bytes, call 9");
  exchange = {.kind = ExchangeKind::kGather, .type = DataType::kI32, .root = 2, .count = 3};
  EXPECT_EQ(Describe(SignatureOf(exchange, 1)), "gather of 3 i32, root 2, call 1");
  transport::MessageTag strange = ToTag(call);
  strange[0] |= std::uint64_t{0xff} << 24;
  EXPECT_EQ(Describe(FromTag(strange)), "an unknown call (another version?)");
}

}  // namespace
}  // namespace espalier::runtime
