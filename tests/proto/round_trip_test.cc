#include <gtest/gtest.h>

#include "proto/decode.h"
#include "proto/encode.h"
#include "proto/limits.h"
#include "tests/proto/random_message.h"

namespace espalier::wire {
namespace {

constexpr std::size_t kKinds = std::variant_size_v<Body>;

TEST(RoundTrip, GivesBackRandomMessagesOfEveryKind) {
  Decoder decoder;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << " kind " << kind);
      const Message message = MakeRandomMessage(kind, 1 + seed % 40, random);
      const auto decoded = decoder.Decode(Encode(message));
      ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
      ASSERT_TRUE(**decoded == message);
    }
  }
}

// The decoder reuses objects, which must not carry values from one message to the next.
TEST(RoundTrip, KeepsNothingOfALargerMessageOfTheSameKind) {
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    SCOPED_TRACE(kind);
    std::mt19937_64 random(kind);
    Decoder decoder;
    for (const std::size_t max_entries : {200U, 3U, 1U, 50U}) {
      const Message message = MakeRandomMessage(kind, max_entries, random);
      const auto decoded = decoder.Decode(Encode(message));
      ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
      ASSERT_TRUE(**decoded == message);
    }
  }
}

TEST(RoundTrip, SurvivesAWrongMessageInBetween) {
  std::mt19937_64 random(5);
  Decoder decoder;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const Message message = MakeRandomMessage(kind, 20, random);
    const std::string bytes = Encode(message);
    ASSERT_FALSE(decoder.Decode(bytes.substr(0, bytes.size() - 1)).has_value());
    ASSERT_TRUE(**decoder.Decode(bytes) == message);
  }
}

TEST(RoundTrip, HoldsAtTheLimits) {
  Decoder decoder;
  for (const Message& message :
       {MakeProgressReport(kMaxFlowsPerReport), MakeOpenedReport(kMaxTableEntries - 1)}) {
    const std::string bytes = Encode(message);
    ASSERT_LE(bytes.size(), kMaxMessageBytes);
    const auto decoded = decoder.Decode(bytes);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
    EXPECT_TRUE(**decoded == message);
  }
  EXPECT_FALSE(decoder.Decode(Encode(MakeProgressReport(kMaxFlowsPerReport + 1))).has_value());
}

}  // namespace
}  // namespace espalier::wire
