#include "collective/runtime/group/reform.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/collective/runtime/collective_cases.h"
#include "tests/collective/runtime/ranks_test.h"

namespace espalier::runtime {
namespace {

using reduce::DataType;
using reduce::ReduceOp;
using std::chrono::milliseconds;
using std::chrono::seconds;

class ReformTest : public RanksTest {
 protected:
  // Runs each rank in a process of its own; it exits with 0 if `body` returns true. The ranks in
  // `killed` must have killed themselves.
  void RunProcesses(int size, const std::vector<int>& killed,
                    const std::function<bool(std::unique_ptr<Communicator>)>& body) {
    std::vector<pid_t> children;
    for (int rank = 0; rank < size; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) {
        auto group = Join(rank, size);
        ::_exit(group && body(std::move(*group)) ? 0 : 1);
      }
      children.push_back(child);
    }
    for (int rank = 0; rank < size; ++rank) {
      int status = 0;
      ASSERT_GT(::waitpid(children[static_cast<std::size_t>(rank)], &status, 0), 0);
      const bool dies = std::ranges::find(killed, rank) != killed.end();
      EXPECT_TRUE(dies ? WIFSIGNALED(status) : status == 0) << "rank " << rank << ": " << status;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, ReformTest,
                         ::testing::Values(Medium::kShared, Medium::kTcp, Medium::kHosts),
                         [](const auto& test) { return std::string(MediumName(test.param)); });

// Large allreduces until one fails; true if its error names the rank.
bool TrainUntilFailure(Communicator& group, int dies, int dead) {
  std::vector<float> data(100'000, 1);
  std::vector<float> sums(data.size());
  for (int round = 0;; ++round) {
    if (group.rank() == dies && round == 2) ::raise(SIGKILL);
    const auto done =
        group.AllReduce(data.data(), sums.data(), data.size(), DataType::kF32, ReduceOp::kSum);
    if (!done)
      return done.error().message.find("rank " + std::to_string(dead)) != std::string::npos;
    if (sums.back() != static_cast<float>(group.size())) return false;
  }
}

// Whether all calls are right in the new group.
bool GoesOn(Communicator& group, const std::vector<std::int64_t>& numbers, std::int64_t own) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  auto done = group.AllGather(&own, all.data(), 1, DataType::kI64);
  std::vector<float> data(70'001, 2);
  if (done) {
    done = group.AllReduce(data.data(), data.data(), data.size(), DataType::kF32, ReduceOp::kSum);
  }
  const auto expected = 2 * static_cast<float>(group.size());
  return done && all == numbers && std::ranges::count(data, expected) == 70'001;
}

// Rank 2 is killed in the middle, and in the new group rank 0.
TEST_P(ReformTest, GoesOnWithTheSurvivors) {
  RunProcesses(5, {0, 2}, [](std::unique_ptr<Communicator> group) {
    const std::int64_t own = group->rank();
    if (!TrainUntilFailure(*group, 2, 2)) return false;
    auto first = Reform(*group, Lineage::Of(*group), {});
    if (!first || first->lost != std::vector<int>{2}) return false;
    group.reset();
    if (!GoesOn(*first->group, {0, 1, 3, 4}, own)) return false;
    if (!TrainUntilFailure(*first->group, 0, 0)) return false;
    auto second = Reform(*first->group, first->lineage, {});
    if (!second || second->lost != std::vector<int>{0}) return false;
    first->group.reset();
    return GoesOn(*second->group, {1, 3, 4}, own);
  });
}

// Two ranks at once leave one.
TEST_P(ReformTest, LeavesASingleRank) {
  RunProcesses(3, {1, 2}, [](std::unique_ptr<Communicator> group) {
    if (group->rank() > 0) ::raise(SIGKILL);
    if (group->Barrier()) return false;
    auto alone = Reform(*group, Lineage::Of(*group), {});
    return alone && alone->lost == std::vector<int>{1, 2} && GoesOn(*alone->group, {0}, 0);
  });
}

// A rank that has come dies before it joins: the others need a round more.
TEST_P(ReformTest, TriesAgainWithoutARankThatDiesMeanwhile) {
  RunRanks(
      3,
      [this](Communicator& group) {
        const Lineage lineage = Lineage::Of(group);
        if (group.rank() == 1) {
          ExpectDone(store_.Set(group_name_ + "/reform.0/here.1", "here", {}));
          return;
        }
        auto formed = Reform(group, lineage, {.patience = milliseconds(500)});
        ASSERT_TRUE(formed) << formed.error().message;
        EXPECT_EQ(formed->lost, std::vector<int>{1});
        EXPECT_EQ(formed->lineage.round, 2U);
        EXPECT_EQ(formed->lineage.numbers, (std::vector<int>{0, 2}));
        EXPECT_TRUE(GoesOn(*formed->group, {0, 2}, group.rank()));
      },
      seconds(4));
}

TEST_P(ReformTest, RefusesARankThatComesTooLate) {
  std::atomic<int> formed = 0;
  std::atomic<bool> is_told = false;
  RunRanks(3, [&](Communicator& group) {
    if (group.rank() == 2) {
      while (formed < 2) std::this_thread::yield();
    }
    auto made = Reform(group, Lineage::Of(group), {.patience = seconds(1)});
    if (group.rank() == 2) {
      is_told = true;
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().code, ErrorCode::kUnavailable);
      EXPECT_NE(made.error().message.find("went on without rank 2"), std::string::npos)
          << made.error().message;
      return;
    }
    ++formed;
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->lost, std::vector<int>{2});
    EXPECT_TRUE(GoesOn(*made->group, {0, 1}, group.rank()));
    while (!is_told) std::this_thread::yield();  // its process lives
  });
}

TEST_P(ReformTest, NeedsAsManyRanksAsAreRequired) {
  RunProcesses(3, {0}, [](std::unique_ptr<Communicator> group) {
    if (group->rank() == 0) ::raise(SIGKILL);
    if (group->Barrier()) return false;
    const auto refused = Reform(*group, Lineage::Of(*group), {.least = 3});
    return !refused && refused.error().code == ErrorCode::kUnavailable &&
           refused.error().message.find("2 of 3 ranks are left") != std::string::npos &&
           refused.error().message.find("lost: rank 0") != std::string::npos;
  });
}

TEST_P(ReformTest, RefusesMembersThatCannotBe) {
  for (const char* members : {"0 7", "1 0", "0 0", "", "0 x"}) {
    group_name_ = std::string("members ") + members;
    RunRanks(2, [&](Communicator& group) {
      ExpectDone(store_.Set(group_name_ + "/reform.0/members", members, {}));
      const auto refused = Reform(group, Lineage::Of(group), {.patience = milliseconds(200)});
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition) << refused.error().message;
    });
  }
}

}  // namespace
}  // namespace espalier::runtime
