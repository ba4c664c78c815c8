#include "collective/transport/shm/shared_group.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/transport/stores/file_store.h"
#include "tests/collective/transport/transport_contract.h"
#include "tests/temporary_folder.h"

namespace espalier::transport {
namespace {

// Though there are cores enough for both, if the machine has two.
TEST(SharedGroup, RanksOnOneCoreWaitForOneAnother) {
  constexpr std::uint32_t kTurns = 200;
  TemporaryFolder folder;
  FileStore store(folder.path());
  const auto take_turns = [&](int rank) {
    cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    auto group = SharedGroup::Join(store, "g", rank, 2, 2 * sizeof(Signal), InAWhile());
    ASSERT_TRUE(group);
    int first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    auto* signals = reinterpret_cast<Signal*>((*group)->memory());
    Signal& theirs = signals[1 - rank];
    for (std::uint32_t turn = 1; turn <= kTurns; ++turn) {
      signals[rank].Set(turn);
      while (theirs.value < turn) {
        ExpectDone((*group)->Await(theirs, turn - 1, InAWhile()));
      }
    }
    EXPECT_GE(theirs.value, kTurns);
  };
  std::thread other([&] { take_turns(1); });
  std::thread one([&] { take_turns(0); });
  one.join();
  other.join();
}

// Two ranks of one group, of this process.
struct TwoRanks {
  TwoRanks() {
    std::thread other([&] { groups[1] = Join(1); });
    groups[0] = Join(0);
    other.join();
  }
  std::unique_ptr<SharedGroup> Join(int rank) {
    auto group = SharedGroup::Join(store, "group", rank, 2, sizeof(Signal), InAWhile());
    EXPECT_TRUE(group) << group.error().message;
    return std::move(*group);
  }

  TemporaryFolder folder;
  FileStore store{folder.path()};
  std::unique_ptr<SharedGroup> groups[2];
};

TEST(SharedGroup, WhoGivesUpWaitsForWhoeverReaches) {
  const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::milliseconds(20); };
  TwoRanks ranks;
  ASSERT_TRUE(ranks.groups[1]->Reach());
  ranks.groups[0]->Abort({ErrorCode::kUnavailable, "rank 0 has waited enough"});
  EXPECT_EQ(ranks.groups[0]->AwaitWithdrawal(soon()), 1);
  std::thread later([&] { ranks.groups[1]->Withdraw(); });
  EXPECT_EQ(ranks.groups[0]->AwaitWithdrawal(InAWhile()), std::nullopt);
  later.join();
}

TEST(SharedGroup, NobodyReachesOnceARankHasGivenUp) {
  TwoRanks ranks;
  ranks.groups[0]->Abort({ErrorCode::kUnavailable, "rank 0 has waited enough"});
  const auto reached = ranks.groups[1]->Reach();
  ASSERT_FALSE(reached);
  EXPECT_EQ(reached.error().message, "rank 0 has waited enough");
  EXPECT_EQ(ranks.groups[0]->AwaitWithdrawal(InAWhile()), std::nullopt);
}

// A rank gives up at any time while another reaches and withdraws as fast as it can: memory that
// has been given back is never touched.
TEST(SharedGroup, MemoryThatHasBeenGivenBackIsNotTouched) {
  for (int round = 0; round < 200; ++round) {
    TwoRanks ranks;
    std::atomic<bool> is_given_back = false;
    std::atomic<int> touched_late = 0;
    std::thread reacher([&] {
      while (touched_late == 0 && ranks.groups[1]->Reach()) {
        if (is_given_back) ++touched_late;
        ranks.groups[1]->Withdraw();
      }
    });
    for (int i = 0; i < round % 20; ++i) std::this_thread::yield();
    ranks.groups[0]->Abort({ErrorCode::kUnavailable, "enough"});
    EXPECT_EQ(ranks.groups[0]->AwaitWithdrawal(InAWhile()), std::nullopt);
    is_given_back = true;
    reacher.join();
    ASSERT_EQ(touched_late, 0) << round;
  }
}

// However few of them each may run on.
TEST(SharedGroup, CountsTheCoresOfAllRanksTogether) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::vector<std::size_t> cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  if (cores.size() < 2) GTEST_SKIP() << "one core";
  TemporaryFolder folder;
  FileStore store(folder.path());
  const auto join = [&](const std::string& name, int rank, std::size_t core, bool expected) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    auto group = SharedGroup::Join(store, name, rank, 2, sizeof(Signal), InAWhile());
    ASSERT_TRUE(group) << group.error().message;
    EXPECT_EQ((*group)->has_cores(), expected) << name;
    EXPECT_EQ((*group)->ranks_a_core(), expected ? 1 : 2) << name;
  };
  for (const std::size_t second : {cores[1], cores[0]}) {
    const std::string name = "g" + std::to_string(second);
    const bool expected = second != cores[0];
    std::thread one([&] { join(name, 0, cores[0], expected); });
    std::thread other([&] { join(name, 1, second, expected); });
    one.join();
    other.join();
  }
}

}  // namespace
}  // namespace espalier::transport
