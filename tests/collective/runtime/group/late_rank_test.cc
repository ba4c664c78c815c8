// A rank that is late, over TCP, is named by all others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "tests/collective/runtime/collective_cases.h"
#include "tests/collective/runtime/ranks_test.h"

namespace espalier::runtime {
namespace {

using reduce::DataType;
using reduce::ReduceOp;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Of ranks in a ring, most wait for ranks that wait themselves.
class LateRankTest : public RanksTest {
 protected:
  void ExpectNamedByAll(int late, const std::function<void(Communicator&)>& prepare) {
    constexpr int kSize = 7;
    std::barrier over(kSize);
    RunRanks(
        kSize,
        [&](Communicator& group) {
          prepare(group);
          std::vector<float> data(70, 1);
          const auto reduce = [&] {
            return group.AllReduce(data.data(), data.data(), 70, DataType::kF32, ReduceOp::kSum);
          };
          ExpectDone(reduce());
          const auto done = group.rank() == late ? Result<void>() : reduce();
          over.arrive_and_wait();
          if (group.rank() == late) return;
          ASSERT_FALSE(done);
          EXPECT_EQ(done.error().code, ErrorCode::kUnavailable);
          const std::string name = fmt::format("rank {} has not entered the call", late);
          EXPECT_NE(done.error().message.find(name), std::string::npos) << done.error().message;
        },
        seconds(2));
  }
};
INSTANTIATE_TEST_SUITE_P(All, LateRankTest, ::testing::Values(Medium::kTcp),
                         [](const auto& /*test*/) { return "Tcp"; });

TEST_P(LateRankTest, IsNamedByAllRanks) {
  algorithm_ = "allreduce-ring-chunked";
  ExpectNamedByAll(4, [](Communicator&) {});
}

TEST_P(LateRankTest, IsNamedByAllRanksOfAPlan) {
  ExpectNamedByAll(5, [](Communicator& group) {
    auto ring = algorithms::MakeAlgorithm("allreduce-ring", {.ranks = 7});
    ASSERT_TRUE(ring.has_value());
    ExpectDone(group.Use(
        {.program = std::make_shared<const program::Program>(std::move(*ring)), .generation = 1}));
  });
}

// A rank that was late, and has entered, is not blamed for one that comes after it.
TEST_P(LateRankTest, IsNotTheOneThatHasEntered) {
  algorithm_ = "allreduce-ring-chunked";
  std::barrier over(4);
  RunRanks(
      4,
      [&](Communicator& group) {
        float word = 1;
        ExpectDone(group.AllReduce(&word, &word, 1, DataType::kF32, ReduceOp::kSum));
        if (group.rank() == 1) std::this_thread::sleep_for(milliseconds(600));  // named meanwhile
        const auto done = group.rank() == 3
                              ? Result<void>()
                              : group.AllReduce(&word, &word, 1, DataType::kF32, ReduceOp::kSum);
        over.arrive_and_wait();
        if (group.rank() == 3) return;
        ASSERT_FALSE(done);
        EXPECT_NE(done.error().message.find("rank 3 has not entered"), std::string::npos)
            << done.error().message;
      },
      seconds(2));
}

TEST_P(LateRankTest, IsNamedByAllRanksIfItDoesNotJoin) {
  std::vector<std::thread> threads;
  for (const int rank : {0, 1, 2, 4, 5}) {
    threads.emplace_back([&, rank] {
      const auto group = Join(rank, 6, seconds(2));
      ASSERT_FALSE(group);
      EXPECT_NE(group.error().message.find("rank 3"), std::string::npos) << group.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace espalier::runtime
