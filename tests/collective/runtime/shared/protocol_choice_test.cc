#include "collective/runtime/shared/protocol_choice.h"

#include <gtest/gtest.h>

#include <utility>

#include "collective/runtime/shared/area/shared_protocol_kind.h"
#include "tests/collective/runtime/shared/two_contexts.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

constexpr Costs kCosts = {.round = 1e-6, .byte = 1e-10, .reduced_byte = 1e-10};

class ProtocolChoiceTest : public TwoContexts {
 protected:
  static Operands Floats(std::size_t count) {
    return {.elements = count, .type = reduce::DataType::kF32};
  }
  // The protocol of a call that both ranks describe alike, except for what `change` does.
  SharedProtocolKind ProtocolOf(CollectiveKind kind,
                                const std::function<void(SharedCall&, SharedCall&)>& change) {
    SharedContext& one = context(0);
    one.Begin({}, {}, InAWhile());
    for (int rank : {0, 1}) {
      SharedCall& call = one.call_of(rank);
      call.protocol = SharedProtocolKind::kSingleCopy;
      call.readable = reinterpret_cast<const std::byte*>(&call);
      call.reads_all = call.writes_all = 1;
    }
    change(one.call_of(0), one.call_of(1));
    return ProtocolChoice(one, kCosts, {}).ProtocolOfAll({.kind = kind, .root = 0});
  }
  static void Nothing(SharedCall&, SharedCall&) {}
};

TEST_F(ProtocolChoiceTest, TakesTheSmallProtocolIfItCostsLess) {
  const ProtocolChoice choice(context(0), kCosts, {});
  const CallSignature allreduce = {.kind = CollectiveKind::kAllReduce};
  EXPECT_TRUE(choice.IsSmall(Floats(1), allreduce));
  EXPECT_TRUE(choice.IsSmall(Floats(1000), allreduce));
  EXPECT_FALSE(choice.IsSmall(Floats(kMaxSmallBytes / 4 + 1), allreduce));
  EXPECT_FALSE(choice.IsSmall(Floats(1), {.kind = CollectiveKind::kAllGather}));
  // If a round costs almost nothing, the bytes decide.
  const ProtocolChoice free_rounds(context(0), {.byte = 1e-10, .reduced_byte = 1e-8}, {});
  EXPECT_TRUE(free_rounds.IsSmall(Floats(4), allreduce));  // always small
  EXPECT_FALSE(free_rounds.IsSmall(Floats(1000), allreduce));
}

TEST_F(ProtocolChoiceTest, TakesTheForcedProtocol) {
  const CallSignature allreduce = {.kind = CollectiveKind::kAllReduce};
  EXPECT_TRUE(ProtocolChoice(context(0), kCosts, SharedProtocolKind::kSmall)
                  .IsSmall(Floats(60'000), allreduce));
  ProtocolChoice streamed(context(0), kCosts, SharedProtocolKind::kStagedStreaming);
  EXPECT_FALSE(streamed.IsSmall(Floats(1), allreduce));
  EXPECT_EQ(streamed.Choose(Floats(1), allreduce), SharedProtocolKind::kStagedStreaming);
  EXPECT_FALSE(streamed.is_timed());
}

// Only the chooser tries both candidates for a long call.
TEST_F(ProtocolChoiceTest, TimesTwoCandidatesOnTheChooser) {
  const CallSignature reduce = {.kind = CollectiveKind::kReduce, .root = 1};
  ProtocolChoice chooser(context(1), kCosts, {});
  ProtocolChoice other(context(0), kCosts, {});
  bool times = false;
  bool streams = false;
  for (int i = 0; i < 200; ++i) {
    streams =
        streams || chooser.Choose(Floats(1 << 20), reduce) == SharedProtocolKind::kStagedStreaming;
    times = times || chooser.is_timed();
    if (chooser.is_timed()) chooser.Record(1e-3);
    EXPECT_EQ(other.Choose(Floats(1 << 20), reduce), SharedProtocolKind::kStaged);
    EXPECT_FALSE(other.is_timed());
    EXPECT_EQ(chooser.Choose(Floats(100), reduce), SharedProtocolKind::kStaged);
  }
  EXPECT_TRUE(times);
  EXPECT_TRUE(streams);
  EXPECT_EQ(chooser.ChooserOf(reduce), 1);
  EXPECT_EQ(chooser.ChooserOf({.kind = CollectiveKind::kBroadcast, .root = 1}), 0);
  EXPECT_EQ(chooser.ChooserOf({.kind = CollectiveKind::kAllGather}), 0);
}

TEST_F(ProtocolChoiceTest, UsesSingleCopyOnlyIfAllRanksCan) {
  using Kind = CollectiveKind;
  EXPECT_EQ(ProtocolOf(Kind::kAllGather, Nothing), SharedProtocolKind::kSingleCopy);
  EXPECT_EQ(ProtocolOf(Kind::kBroadcast, Nothing), SharedProtocolKind::kSingleCopy);
  EXPECT_EQ(ProtocolOf(Kind::kAllReduce, Nothing),
            SharedProtocolKind::kStaged);  // every rank reduces
  const auto blind = [](SharedCall&, SharedCall& b) { b.reads_all = 0; };
  EXPECT_EQ(ProtocolOf(Kind::kAllGather, blind), SharedProtocolKind::kStagedStreaming);
  const auto hidden = [](SharedCall&, SharedCall& b) { b.readable = nullptr; };
  EXPECT_EQ(ProtocolOf(Kind::kAllToAll, hidden), SharedProtocolKind::kStagedStreaming);
  const auto reads_only = [](SharedCall& a, SharedCall&) { a.writes_all = 0; };
  EXPECT_EQ(ProtocolOf(Kind::kAllGather, reads_only), SharedProtocolKind::kSingleCopy);
  EXPECT_EQ(ProtocolOf(Kind::kReduce, reads_only), SharedProtocolKind::kStagedStreaming);
  // The other ranks follow the chooser.
  const auto slots = [](SharedCall& a, SharedCall&) { a.protocol = SharedProtocolKind::kStaged; };
  EXPECT_EQ(ProtocolOf(Kind::kAllGather, slots), SharedProtocolKind::kStaged);
  EXPECT_EQ(ProtocolOf(Kind::kBroadcast, slots),
            SharedProtocolKind::kSingleCopy);  // rank 1 chooses
}

TEST(SharedProtocol, IsFoundByItsName) {
  for (const char* name : {"small", "staged", "staged-streaming", "single-copy"}) {
    const auto kind = FindSharedProtocol(name);
    ASSERT_TRUE(kind) << name;
    EXPECT_EQ(SharedProtocolName(*kind), name);
  }
  EXPECT_FALSE(FindSharedProtocol("direct"));
}

}  // namespace
}  // namespace espalier::runtime
