#include "collective/runtime/group/retrying_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/runtime/group/communicator.h"
#include "collective/transport/stores/file_store.h"
#include "tests/temporary_folder.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using reduce::DataType;
using reduce::ReduceOp;
using std::chrono::seconds;

constexpr std::size_t kCount = 20'000;

CollectivePlan MakeTreeSchedule(const std::string& algorithm, int ranks, std::uint64_t generation) {
  auto program = algorithms::MakeAlgorithm(algorithm, {.ranks = ranks});
  EXPECT_TRUE(program) << program.error().message;
  return {.program = std::make_shared<const program::Program>(std::move(*program)),
          .generation = generation};
}

class RetryingGroupTest : public ::testing::Test {
 protected:
  void RunRanks(int size, const std::function<void(RetryingGroup&)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        const auto join = [&](std::uint32_t number) -> Result<std::unique_ptr<Group>> {
          auto joined = Communicator::Join(store_, "g" + std::to_string(number), rank, size,
                                           {.medium = Medium::kTcp, .timeout = seconds(60)});
          if (!joined) return Propagate(joined);
          return std::move(*joined);
        };
        auto group = RetryingGroup::Make(join, seconds(60));
        ASSERT_TRUE(group) << group.error().message;
        body(**group);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  static Result<void> Sum(RetryingGroup& group, const std::vector<float>& input,
                          std::vector<float>& output) {
    return group.Run(CollectiveKind::kAllReduce, input.data(), output.data(), input.size(),
                     DataType::kF32, ReduceOp::kSum, program::kNoRoot);
  }

  TemporaryFolder folder_;
  transport::FileStore store_{folder_.path()};
};

TEST_F(RetryingGroupTest, TakesThePlanThatAllRanksHave) {
  RunRanks(3, [](RetryingGroup& group) {
    const std::vector<float> input(100, 1);
    std::vector<float> output(100);
    // Rank 0 is offered plan 1 and 3, rank 1 plans 1 and 2, rank 2 only 1.
    group.Offer(MakeTreeSchedule("allreduce-ring", 3, 1), false);
    ASSERT_TRUE(Sum(group, input, output));
    EXPECT_EQ(group.GenerationOf(CollectiveKind::kAllReduce), 1U);
    if (group.rank() == 0) group.Offer(MakeTreeSchedule("allreduce-all-pairs", 3, 3), false);
    if (group.rank() == 1) group.Offer(MakeTreeSchedule("allreduce-halving-doubling", 3, 2), false);
    ASSERT_TRUE(Sum(group, input, output));
    EXPECT_EQ(group.GenerationOf(CollectiveKind::kAllReduce), 1U);
    // An older one changes nothing.
    group.Offer(MakeTreeSchedule("allreduce-halving-doubling", 3, 1), false);
    if (group.rank() != 0) group.Offer(MakeTreeSchedule("allreduce-all-pairs", 3, 3), false);
    ASSERT_TRUE(Sum(group, input, output));
    EXPECT_EQ(group.GenerationOf(CollectiveKind::kAllReduce), 3U);
    EXPECT_EQ(output, std::vector<float>(100, 3));
  });
}

// Plans arrive at any time and interrupt calls on some ranks earlier than on others.
TEST_F(RetryingGroupTest, RepeatsInterruptedCalls) {
  constexpr int kPlans = 4;
  constexpr int kMaxCalls = 10'000;
  std::atomic<int> ready = 0;
  RunRanks(3, [&](RetryingGroup& group) {
    const std::string names[] = {"allreduce-ring-chunked", "allreduce-all-pairs",
                                 "allreduce-double-binary-tree", "allreduce-halving-doubling"};
    ASSERT_TRUE(group.Use(MakeTreeSchedule(names[0], 3, 1)));
    std::atomic<std::int64_t> calls = 0;
    std::thread plans([&] {
      for (int p = 1; p < kPlans; ++p) {
        const std::int64_t seen = calls;
        while (calls < seen + 1 + group.rank()) std::this_thread::yield();
        group.Offer(MakeTreeSchedule(names[p], 3, static_cast<std::uint64_t>(p) + 1), true);
      }
    });
    for (int i = 0; i < kMaxCalls; ++i) {
      std::vector<float> input(kCount, static_cast<float>(group.rank() + i % 50));
      std::vector<float> output(kCount, -1);
      // The last element counts the ranks that have the last plan: all leave in the same call.
      input.back() = group.GenerationOf(CollectiveKind::kAllReduce) == kPlans ? 1.0F : 0.0F;
      const auto done = Sum(group, input, output);
      ASSERT_TRUE(done) << done.error().message;
      const auto expected = static_cast<float>(3 + 3 * (i % 50));
      EXPECT_TRUE(std::all_of(output.begin(), output.end() - 1,
                              [&](float value) { return value == expected; }))
          << "call " << i;
      ++calls;
      if (output.back() == 3) break;
    }
    EXPECT_EQ(group.GenerationOf(CollectiveKind::kAllReduce), kPlans + 0U);
    plans.join();
    // No rank leaves while another one may still repeat a call.
    ++ready;
    while (ready < 3) std::this_thread::yield();
  });
}

TEST_F(RetryingGroupTest, ReportsAnInterruptedCallInPlaceAndGoesOn) {
  RunRanks(2, [](RetryingGroup& group) {
    ASSERT_TRUE(group.Use(MakeTreeSchedule("allreduce-ring", 2, 1)));
    std::vector<float> data(kCount, 1);
    if (group.rank() == 1) group.Offer(MakeTreeSchedule("allreduce-all-pairs", 2, 2), true);
    const auto done = Sum(group, data, data);
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("cannot be repeated"), std::string::npos)
        << done.error().message;
    if (group.rank() == 0) group.Offer(MakeTreeSchedule("allreduce-all-pairs", 2, 2), false);
    std::fill(data.begin(), data.end(), 2.0F);
    ASSERT_TRUE(Sum(group, data, data));
    EXPECT_EQ(data, std::vector<float>(kCount, 4));
    EXPECT_EQ(group.GenerationOf(CollectiveKind::kAllReduce), 2U);
  });
}

// Calls with unequal parts bypass plans and are repeated, unless the output is a part of the input.
TEST_F(RetryingGroupTest, RepeatsUnequalPartsUnlessTheyAreInPlace) {
  RunRanks(3, [](RetryingGroup& group) {
    ASSERT_TRUE(group.Use(MakeTreeSchedule("allreduce-ring", 3, 1)));
    const std::vector<std::size_t> counts = {0, kCount, 2 * kCount};
    const auto own = counts[static_cast<std::size_t>(group.rank())];
    const std::vector<float> input(3 * kCount, 1);
    std::vector<float> output(own + 1, -1);
    const auto scatter = [&](const float* from, float* to) {
      return group.RunUnequal(CollectiveKind::kReduceScatter, from, to, counts, DataType::kF32,
                              ReduceOp::kSum);
    };
    if (group.rank() == 1) group.Offer(MakeTreeSchedule("allreduce-all-pairs", 3, 2), true);
    if (group.rank() != 1) group.Offer(MakeTreeSchedule("allreduce-all-pairs", 3, 2), false);
    const auto done = scatter(input.data(), output.data());
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(std::count(output.begin(), output.end(), 3.0F), static_cast<std::ptrdiff_t>(own));
    EXPECT_EQ(output.back(), -1);
    EXPECT_EQ(group.GenerationOf(CollectiveKind::kAllReduce), 2U);

    std::vector<float> data(3 * kCount, 1);
    if (group.rank() == 1) group.Offer(MakeTreeSchedule("allreduce-ring", 3, 3), true);
    if (group.rank() != 1) group.Offer(MakeTreeSchedule("allreduce-ring", 3, 3), false);
    const std::size_t begin = group.rank() == 2 ? kCount : 0;
    const auto lost = scatter(data.data(), own == 0 ? nullptr : data.data() + begin);
    ASSERT_FALSE(lost);
    EXPECT_NE(lost.error().message.find("cannot be repeated"), std::string::npos)
        << lost.error().message;
  });
}

TEST_F(RetryingGroupTest, EndsWhenItIsInterrupted) {
  RunRanks(1, [](RetryingGroup& group) {
    group.Interrupt({ErrorCode::kUnavailable, "the job has ended"});
    const std::vector<float> input(10, 1);
    std::vector<float> output(10);
    for (int i = 0; i < 2; ++i) {
      const auto done = Sum(group, input, output);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().message, "the job has ended");
    }
    EXPECT_EQ(group.Allocate(10).error().code, ErrorCode::kUnsupported);
  });
}

}  // namespace
}  // namespace espalier::runtime
