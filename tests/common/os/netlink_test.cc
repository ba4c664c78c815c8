// Netlink messages and attributes that are whole, truncated, or of impossible lengths.
#include "common/os/netlink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace espalier::netlink {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr std::uint16_t kType = 40;

// Two messages, each with a number of four bytes and a text of three.
class TwoMessages {
 public:
  TwoMessages() {
    for (int i = 0; i < 2; ++i) {
      nlmsghdr* const message = mnl_nlmsg_put_header(bytes_.data() + size_);
      message->nlmsg_type = static_cast<std::uint16_t>(kType + i);
      mnl_attr_put_u32(message, 1, 0x01020304U);
      mnl_attr_put_strz(message, 2, "eth");
      size_ += message->nlmsg_len;
    }
  }
  Bytes First(std::size_t size) const { return Bytes(bytes_).first(size); }
  Bytes All() const { return First(size_); }
  nlmsghdr& first() { return *reinterpret_cast<nlmsghdr*>(bytes_.data()); }
  nlattr& first_attribute() { return *reinterpret_cast<nlattr*>(bytes_.data() + NLMSG_HDRLEN); }

 private:
  alignas(nlmsghdr) std::array<std::byte, 256> bytes_ = {};
  std::size_t size_ = 0;
};

std::vector<int> TypesOf(Bytes bytes) {
  std::vector<int> types;
  ForEachMessage(bytes, [&](const nlmsghdr& header, Bytes payload) {
    types.push_back(header.nlmsg_type);
    EXPECT_LE(payload.data() + payload.size(), bytes.data() + bytes.size());
  });
  return types;
}

std::vector<std::pair<int, std::size_t>> AttributesOf(Bytes bytes) {
  std::vector<std::pair<int, std::size_t>> attributes;
  ForEachAttribute(bytes, [&](int kind, Bytes value) {
    attributes.emplace_back(kind, value.size());
    EXPECT_LE(value.data() + value.size(), bytes.data() + bytes.size());
  });
  return attributes;
}

TEST(Netlink, WalksAllMessagesAndAttributes) {
  const TwoMessages two;
  EXPECT_THAT(TypesOf(two.All()), ElementsAre(kType, kType + 1));
  ForEachMessage(two.All(), [](const nlmsghdr&, Bytes payload) {
    EXPECT_THAT(AttributesOf(payload), ElementsAre(Pair(1, 4), Pair(2, 4)));
    ForEachAttribute(payload, [](int kind, Bytes value) {
      EXPECT_TRUE(kind == 1 ? NumberIn(value) == 0x01020304U : TextIn(value) == "eth");
    });
  });
}

TEST(Netlink, LeavesOutWhatIsCutOff) {
  const TwoMessages two;
  const std::size_t half = two.All().size() / 2;
  for (std::size_t size = 0; size < two.All().size(); ++size) {
    EXPECT_EQ(TypesOf(two.First(size)).size(), size < half ? 0U : 1U) << "size=" << size;
  }
  const Bytes attributes = two.First(half).subspan(NLMSG_HDRLEN);
  for (std::size_t size = 0; size < attributes.size(); ++size) {
    EXPECT_EQ(AttributesOf(attributes.first(size)).size(), size < 8 ? 0U : 1U) << "size=" << size;
  }
}

TEST(Netlink, EndsWhereALengthIsImpossible) {
  for (const std::uint32_t length : {0U, 15U, 4'096U, 0x7FFF'FFFFU, 0x8000'0000U, 0xFFFF'FFFFU}) {
    TwoMessages two;
    two.first().nlmsg_len = length;
    EXPECT_THAT(TypesOf(two.All()), IsEmpty()) << "length=" << length;
  }
  for (const int length : {0, 3, 4'096, 0xFFFF}) {
    TwoMessages two;
    two.first_attribute().nla_len = static_cast<std::uint16_t>(length);
    EXPECT_THAT(AttributesOf(two.All().subspan(NLMSG_HDRLEN)), IsEmpty()) << "length=" << length;
  }
}

TEST(Netlink, ReadsNumbersAndTextsOfAnySize) {
  const std::array<std::byte, 6> bytes = {std::byte{'a'}, std::byte{'b'}, std::byte{0},
                                          std::byte{0},   std::byte{'c'}, std::byte{'d'}};
  EXPECT_EQ(NumberIn(Bytes(bytes).first(0)), 0U);
  EXPECT_EQ(NumberIn(Bytes(bytes).first(1)), 0x61U);
  EXPECT_EQ(NumberIn(bytes), 0x6261U);
  EXPECT_EQ(TextIn(Bytes(bytes).first(0)), "");
  EXPECT_EQ(TextIn(Bytes(bytes).first(1)), "a");
  EXPECT_EQ(TextIn(bytes), "ab");
}

}  // namespace
}  // namespace espalier::netlink
