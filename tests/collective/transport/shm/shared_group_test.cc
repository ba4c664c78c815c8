#include "collective/transport/shm/shared_group.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "collective/transport/stores/file_store.h"
#include "tests/collective/transport/transport_contract.h"
#include "tests/temporary_folder.h"

namespace espalier::transport {
namespace {

// Both ranks are bound to one core, even if the machine has a core for each.
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

void ExpectKey(FileStore& store, const std::string& key) {
  const auto value = store.Get(key, InAWhile());
  EXPECT_TRUE(value) << value.error().message;
}

// Two ranks of one group in this process.
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

TEST(SharedGroup, AnAbortingRankWaitsForRemoteAccess) {
  const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::milliseconds(20); };
  TwoRanks ranks;
  ASSERT_TRUE(ranks.groups[1]->BeginRemoteAccess());
  ranks.groups[0]->Abort({ErrorCode::kUnavailable, "rank 0 has waited enough"});
  EXPECT_EQ(ranks.groups[0]->AwaitRemoteAccessEnd(soon()), 1);
  std::thread later([&] { ranks.groups[1]->EndRemoteAccess(); });
  EXPECT_EQ(ranks.groups[0]->AwaitRemoteAccessEnd(InAWhile()), std::nullopt);
  later.join();
}

TEST(SharedGroup, RemoteAccessIsRefusedAfterAnAbort) {
  TwoRanks ranks;
  ranks.groups[0]->Abort({ErrorCode::kUnavailable, "rank 0 has waited enough"});
  const auto reached = ranks.groups[1]->BeginRemoteAccess();
  ASSERT_FALSE(reached);
  EXPECT_EQ(reached.error().message, "rank 0 has waited enough");
  EXPECT_EQ(ranks.groups[0]->AwaitRemoteAccessEnd(InAWhile()), std::nullopt);
}

// A rank aborts at any time while another one begins and ends remote access as fast as it can:
// memory is never accessed after it has been given back.
TEST(SharedGroup, MemoryIsNotAccessedAfterAnAbort) {
  for (int round = 0; round < 200; ++round) {
    TwoRanks ranks;
    std::atomic<bool> is_given_back = false;
    std::atomic<int> touched_late = 0;
    std::thread reacher([&] {
      while (touched_late == 0 && ranks.groups[1]->BeginRemoteAccess()) {
        if (is_given_back) ++touched_late;
        ranks.groups[1]->EndRemoteAccess();
      }
    });
    for (int i = 0; i < round % 20; ++i) std::this_thread::yield();
    ranks.groups[0]->Abort({ErrorCode::kUnavailable, "enough"});
    EXPECT_EQ(ranks.groups[0]->AwaitRemoteAccessEnd(InAWhile()), std::nullopt);
    is_given_back = true;
    reacher.join();
    ASSERT_EQ(touched_late, 0) << round;
  }
}

// A rank that joins with wrong parameters gets an error, and its peer goes on waiting.
TEST(SharedGroup, RefusesRanksWithOtherParameters) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  std::unique_ptr<SharedGroup> first;
  std::thread waiting([&] {
    auto group = SharedGroup::Join(store, "g", 0, 2, 4096, InAWhile());
    ASSERT_TRUE(group) << group.error().message;
    first = std::move(*group);
  });
  ExpectKey(store, "g/memory");
  const auto refused = [&](int rank, int size, std::size_t bytes) {
    const auto group = SharedGroup::Join(store, "g", rank, size, bytes, InAWhile());
    EXPECT_FALSE(group);
    return group ? Error{} : group.error();
  };
  EXPECT_EQ(refused(1, 3, 4096).message, "rank 0 has a group of 2 ranks, but rank 1 has one of 3");
  const Error less = refused(1, 2, 4095);
  EXPECT_EQ(less.code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(less.message.find("rank 0 shares 4096 bytes, but rank 1 expects 4095"),
            std::string::npos)
      << less.message;
  const Error more = refused(1, 2, 4097);
  EXPECT_EQ(more.code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(more.message.find("instead of"), std::string::npos) << more.message;
  for (const auto& [rank, size] :
       {std::pair(-1, 2), std::pair(2, 2), std::pair(0, 0), std::pair(0, 1025)}) {
    EXPECT_EQ(refused(rank, size, 4096).code, ErrorCode::kInvalidArgument) << rank << " " << size;
  }
  auto second = SharedGroup::Join(store, "g", 1, 2, 4096, InAWhile());
  ASSERT_TRUE(second) << second.error().message;
  waiting.join();
  EXPECT_EQ(refused(1, 2, 4096).code, ErrorCode::kAlreadyExists);
}

// The store may name any file, and one that shrinks while it is mapped would kill the rank.
TEST(SharedGroup, OpensOnlyMemoryThatRanksShare) {
  const auto open = [](const UniqueFd& file, std::size_t bytes) {
    const auto opened = OpenMemoryFile(::getpid(), file.get(), bytes);
    return opened ? std::string() : opened.error().message;
  };
  const UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 4096), 0);
  EXPECT_NE(open(unsealed, 4096).find("not sealed against shrinking"), std::string::npos);
  const auto made = MakeMemoryFile("sealed", 4096);
  ASSERT_TRUE(made);
  EXPECT_EQ(open(*made, 4096), "");
  EXPECT_EQ(open(*made, 0), "");
  EXPECT_NE(open(*made, 4097).find("has 4096 bytes instead of 4097"), std::string::npos);
  EXPECT_NE(::ftruncate(made->get(), 100), 0) << "it keeps its size";
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reads(ends[0]);
  const UniqueFd writes(ends[1]);
  EXPECT_NE(open(reads, 1), "");
  EXPECT_NE(OpenMemoryFile(::getpid(), 1'000'000, 1).error().message.find("cannot open"),
            std::string::npos);
  TemporaryFolder folder;
  FileStore store(folder.path());
  ExpectDone(store.Set("g/memory", "nowhere", InAWhile()));
  const auto joined = SharedGroup::Join(store, "g", 1, 2, 64, InAWhile());
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kFailedPrecondition);
}

// A store in the network also reaches ranks of other hosts, where rank 0's process is unknown or
// another one.
TEST(SharedGroup, SaysThatRanksAreOnDifferentHosts) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  ExpectDone(store.Set("g/memory", "1 3 00000000-0000-0000-0000-000000000000", InAWhile()));
  const auto joined = SharedGroup::Join(store, "g", 1, 2, 64, InAWhile());
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(joined.error().message.find("rank 0 and rank 1 run on different hosts"), 0U)
      << joined.error().message;
}

// Without waiting for the deadline.
TEST(SharedGroup, LearnsWhyAnotherRankCannotJoin) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  ExpectDone(store.Set(JoinFailureKey("g"), "rank 1: it has no memory", InAWhile()));
  const auto joined = SharedGroup::Join(store, "g", 0, 2, 64, In(std::chrono::hours(1)));
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().message, "rank 1: it has no memory");
}

// All ranks get the first cause, cut to the available space.
TEST(SharedGroup, TellsTheFirstCauseCutToTheSpace) {
  TwoRanks ranks;
  const std::string reason(2'000, 'r');
  ranks.groups[0]->Abort({ErrorCode::kResourceExhausted, reason});
  ranks.groups[1]->Abort({ErrorCode::kUnavailable, "another"});
  for (const auto& group : ranks.groups) {
    const auto checked = group->CheckPeers();
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::kResourceExhausted);
    EXPECT_EQ(checked.error().message, reason.substr(0, 511));
  }
}

// A faulty rank may write any code, and a text without an end.
TEST(SharedGroup, ReadsAnAbortThatAFaultyRankHasWritten) {
  TwoRanks ranks;
  ranks.groups[0]->Abort({ErrorCode::kPermissionDenied, "a text that tells where it lies"});
  std::byte* const end = ranks.groups[1]->memory();
  constexpr std::ptrdiff_t kHeaderBytes = 64 << 10;
  const std::string_view text = "a text that tells where it lies";
  auto* const header = reinterpret_cast<char*>(end) - kHeaderBytes;
  char* const found = std::search(header, reinterpret_cast<char*>(end), text.begin(), text.end());
  ASSERT_NE(found, reinterpret_cast<char*>(end));
  EXPECT_EQ(ranks.groups[1]->CheckPeers().error().code, ErrorCode::kPermissionDenied);
  for (const std::int32_t code : {-1, 99, 1 << 30}) {
    std::memcpy(found - sizeof(code), &code, sizeof(code));
    EXPECT_EQ(ranks.groups[1]->CheckPeers().error().code, ErrorCode::kUnavailable) << code;
  }
  std::memset(found, 'x', 512);
  EXPECT_EQ(ranks.groups[1]->CheckPeers().error().message, std::string(512, 'x'));
}

TEST(SharedGroup, NamesRanksThatHaveLeftOnATimeout) {
  TwoRanks ranks;
  ranks.groups[1].reset();
  auto& signal = *reinterpret_cast<Signal*>(ranks.groups[0]->memory());
  const auto waited = ranks.groups[0]->Await(signal, 0, In(std::chrono::milliseconds(1)));
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().message, "timed out; rank 1 has left");
}

// A process that is killed during remote access never ends it.
TEST(SharedGroup, DoesNotWaitForRemoteAccessOfADeadRank) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  const pid_t child = ::fork();
  if (child == 0) {
    auto group = SharedGroup::Join(store, "g", 1, 2, 64, InAWhile());
    if (group && (*group)->BeginRemoteAccess()) {
      static_cast<void>(store.Set("reaches", "1", InAWhile()));
      ::pause();
    }
    ::_exit(1);
  }
  auto group = SharedGroup::Join(store, "g", 0, 2, 64, InAWhile());
  ASSERT_TRUE(group) << group.error().message;
  ExpectKey(store, "reaches");
  EXPECT_EQ((*group)->AwaitRemoteAccessEnd(In(std::chrono::milliseconds(1))), 1);
  // Regression: this counted as the peer's departure, so its death went unnoticed.
  const auto twin = SharedGroup::Join(store, "g", 1, 2, 64, InAWhile());
  ASSERT_FALSE(twin);
  EXPECT_EQ(twin.error().code, ErrorCode::kAlreadyExists);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ((*group)->AwaitRemoteAccessEnd(InAWhile()), std::nullopt);
  const auto checked = (*group)->CheckPeers();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message, "rank 1 has died");
}

// Each rank may use few cores, but together they have enough.
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
    EXPECT_EQ((*group)->ranks_per_core(), expected ? 1 : 2) << name;
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
