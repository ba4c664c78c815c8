#include "collective/runtime/group/communicator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/program/program_bytes.h"
#include "collective/transport/tcp/tcp_transport.h"
#include "tests/collective/runtime/collective_cases.h"
#include "tests/collective/runtime/ranks_test.h"

namespace espalier::runtime {
namespace {

using reduce::DataType;
using reduce::ReduceOp;
using std::chrono::milliseconds;
using std::chrono::seconds;

class CommunicatorTest : public RanksTest {};

TEST_P(CommunicatorTest, DoesEveryCollectiveAsTheReference) {
  for (const int size : {1, 2, 3, 4, 7}) {
    group_name_ = "of " + std::to_string(size);
    RunRanks(size, [](Communicator& group) { ExpectEveryCollective(group, false); });
  }
}

TEST_P(CommunicatorTest, StreamsLargeResults) {
  RunRanks(2, [](Communicator& group) {
    ExpectAllReduce(group, {DataType::kF32, ReduceOp::kSum, 2'100'001, true});
    ExpectAllReduce(group, {DataType::kBf16, ReduceOp::kAvg, 4'200'001, false});
  });
}

TEST_P(CommunicatorTest, NamesRanksThatMakeOtherCalls) {
  const std::vector<std::function<Result<void>(Communicator&, float*)>> others = {
      [](Communicator& g, float* d) {
        return g.AllReduce(d, d, 63, DataType::kF32, ReduceOp::kSum);
      },
      [](Communicator& g, float* d) {
        return g.AllReduce(d, d, 64, DataType::kI32, ReduceOp::kSum);
      },
      [](Communicator& g, float* d) {
        return g.AllReduce(d, d, 64, DataType::kF32, ReduceOp::kMax);
      }};
  int group_number = 0;
  for (const auto& other : others) {
    group_name_ = "mismatch" + std::to_string(group_number++);
    RunRanks(3, [&](Communicator& group) {
      std::vector<float> data(64);
      const auto done = group.rank() == 2 ? other(group, data.data())
                                          : group.AllReduce(data.data(), data.data(), 64,
                                                            DataType::kF32, ReduceOp::kSum);
      ASSERT_FALSE(done);
      // Over TCP a rank may learn only that another rank has aborted.
      if (GetParam() == Medium::kShared) {
        EXPECT_EQ(done.error().code, ErrorCode::kFailedPrecondition);
      }
      EXPECT_NE(done.error().message.find("rank 2 "), std::string::npos) << done.error().message;
      // The group has ended.
      const auto later = group.Barrier();
      ASSERT_FALSE(later);
      EXPECT_EQ(later.error().message, done.error().message);
    });
  }
}

// Different sizes choose different algorithms, so these ranks wait on connections that their peers
// do not use.
TEST_P(CommunicatorTest, NamesRanksWhoseSizesChooseOtherAlgorithms) {
  std::array<std::string, 4> heard;
  RunRanks(4, [&](Communicator& group) {
    const std::size_t count = group.rank() == 2 ? 1 << 20 : 4;
    std::vector<float> data(count);
    const auto done =
        group.AllReduce(data.data(), data.data(), count, DataType::kF32, ReduceOp::kSum);
    ASSERT_FALSE(done);
    heard[static_cast<std::size_t>(group.rank())] = done.error().message;
  });
  const auto names_it = [](const std::string& message) {
    return message.find("rank 2 ") != std::string::npos &&
           message.find("1048576") != std::string::npos;
  };
  // Over TCP a rank may learn only that another rank has aborted.
  const auto least = GetParam() == Medium::kShared ? 4 : 1;
  EXPECT_GE(std::ranges::count_if(heard, names_it), least) << testing::PrintToString(heard);
}

TEST_P(CommunicatorTest, RefusesWrongBuffersAndGoesOn) {
  RunRanks(2, [](Communicator& group) {
    std::vector<float> data(100, 1);
    const auto refused = [](const Result<void>& result) {
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    };
    refused(group.AllReduce(nullptr, data.data(), 1, DataType::kF32, ReduceOp::kSum));
    refused(group.AllReduce(data.data(), nullptr, 1, DataType::kF32, ReduceOp::kSum));
    refused(group.AllReduce(data.data(), data.data() + 1, 50, DataType::kF32, ReduceOp::kSum));
    refused(group.AllReduce(data.data(), data.data(), std::numeric_limits<std::size_t>::max(),
                            DataType::kF32, ReduceOp::kSum));
    refused(group.AllGather(data.data() + 30, data.data(), 20, DataType::kF32));
    refused(group.Broadcast(data.data(), 1, DataType::kF32, 2));
    refused(group.Broadcast(data.data(), 1, DataType::kF32, -1));
    ExpectDone(group.AllReduce(nullptr, nullptr, 0, DataType::kF32, ReduceOp::kSum));
    ExpectDone(group.AllReduce(data.data(), data.data(), 100, DataType::kF32, ReduceOp::kSum));
    EXPECT_EQ(data, std::vector<float>(100, 2));
  });
}

// Also on a rank whose peer has given up joining before.
TEST_P(CommunicatorTest, NamesARankThatNeverComes) {
  std::vector<std::thread> threads;
  for (const int rank : {0, 2}) {
    threads.emplace_back([&, rank] {
      const auto group = Join(rank, 3, milliseconds(rank == 0 ? 300 : 1500));
      ASSERT_FALSE(group);
      EXPECT_EQ(group.error().code, ErrorCode::kUnavailable);
      const std::string& message = group.error().message;
      EXPECT_TRUE(message.find("rank 1") != std::string::npos || message.ends_with(": 1"))
          << message;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(CommunicatorTest, NamesARankThatMakesNoCall) {
  RunRanks(
      2,
      [](Communicator& group) {
        if (group.rank() == 1) return;
        float data = 0;
        const auto done = group.AllReduce(&data, &data, 1, DataType::kF32, ReduceOp::kSum);
        ASSERT_FALSE(done);
        EXPECT_NE(done.error().message.find("rank 1"), std::string::npos) << done.error().message;
      },
      seconds(2));
}

// SIGKILL during large allreduces: every other rank gets an error that names the killed rank.
TEST_P(CommunicatorTest, NamesARankThatIsKilledInTheMiddle) {
  constexpr int kSize = 4;
  constexpr std::size_t kCount = 200'000;
  std::vector<pid_t> children;
  for (int rank = 0; rank < kSize; ++rank) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    auto group = Join(rank, kSize);
    if (!group) ::_exit(2);
    std::vector<float> data(kCount, 1);
    for (int round = 0;; ++round) {
      if (rank == 2 && round == 3) ::raise(SIGKILL);
      const auto done =
          (*group)->AllReduce(data.data(), data.data(), kCount, DataType::kF32, ReduceOp::kMax);
      if (!done) ::_exit(done.error().message.find("rank 2") != std::string::npos ? 0 : 3);
    }
  }
  for (int rank = 0; rank < kSize; ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(children[static_cast<std::size_t>(rank)], &status, 0),
              children[static_cast<std::size_t>(rank)]);
    if (rank == 2) {
      EXPECT_TRUE(WIFSIGNALED(status));
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << rank << " exit code " << WEXITSTATUS(status);
    }
  }
}

// Regression: a forked data loader kept a dead rank's sockets and locks open, so its peers noticed
// the death only at the timeout.
TEST_P(CommunicatorTest, NamesARankThatIsKilledWhileItsChildLives) {
  constexpr int kSize = 2;
  int leash[2];  // keeps the child alive until the end of the test
  ASSERT_EQ(::pipe(leash), 0);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kSize; ++rank) {
    const pid_t process = ::fork();
    if (process != 0) {
      ranks.push_back(process);
      continue;
    }
    ::close(leash[1]);
    auto group = Join(rank, kSize);
    if (!group) ::_exit(2);
    float value = 1;
    for (int round = 0;; ++round) {
      if (rank == 1 && round == 3) {
        char end = 0;
        if (::fork() == 0) ::_exit(static_cast<int>(::read(leash[0], &end, 1)));
        ::raise(SIGKILL);
      }
      const auto done = (*group)->AllReduce(&value, &value, 1, DataType::kF32, ReduceOp::kMax);
      if (done) continue;
      const std::string& why = done.error().message;
      const bool is_named = why.find("rank 1") != std::string::npos;
      ::_exit(is_named && why.find("timed out") == std::string::npos ? 0 : 3);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(ranks[0], &status, 0), ranks[0]);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
  ASSERT_EQ(::waitpid(ranks[1], &status, 0), ranks[1]);
  EXPECT_TRUE(WIFSIGNALED(status));
  ::close(leash[0]);
  ::close(leash[1]);
}

TEST_P(CommunicatorTest, EndsACallThatIsInterrupted) {
  const Error cause = {ErrorCode::kUnavailable, "the plan is out of date"};
  std::atomic<int> joined = 0;
  std::atomic<bool> is_over = false;
  RunRanks(2, [&](Communicator& group) {
    float value = 1;
    ++joined;
    if (group.rank() == 0) {
      while (joined < 2) std::this_thread::yield();
      std::thread other([&] { group.Interrupt(cause); });
      const auto done = group.AllReduce(&value, &value, 1, DataType::kF32, ReduceOp::kSum);
      other.join();
      is_over = true;
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().message, cause.message);
      EXPECT_EQ(group.Barrier().error().message, cause.message);
    } else {
      while (!is_over) std::this_thread::yield();
      // Rank 0's earlier messages may suffice for a result here; then the next call fails.
      const auto done = group.AllReduce(&value, &value, 1, DataType::kF32, ReduceOp::kSum);
      EXPECT_TRUE(!done || value == 2);
      ASSERT_FALSE(group.Barrier());
    }
  });
}

std::shared_ptr<const program::Program> MakeProgram(const std::string& name, int ranks) {
  auto program = algorithms::MakeAlgorithm(name, {.ranks = ranks, .root = 1});
  EXPECT_TRUE(program) << program.error().message;
  return std::make_shared<const program::Program>(std::move(*program));
}

TEST_P(CommunicatorTest, RunsGivenProgramsAndSwapsThem) {
  RunRanks(4, [](Communicator& group) {
    std::uint64_t generation = 0;
    for (const char* name : {"allreduce-double-binary-tree", "allreduce-all-pairs",
                             "reduce-binomial", "alltonext", "broadcast-pipelined"}) {
      const auto program = MakeProgram(name, 4);
      ExpectDone(group.Use({.program = program, .generation = ++generation}));
      EXPECT_EQ(group.GenerationOf(program->collective.kind), generation);
      ExpectAllReduce(group, {DataType::kF32, ReduceOp::kSum, 30'001, false});
      ExpectReduce(group, {DataType::kI32, ReduceOp::kMax, 1'001, true});
      ExpectBroadcast(group, {DataType::kF64, ReduceOp::kSum, 777, true});
    }
    EXPECT_EQ(group.GenerationOf(program::CollectiveKind::kAllReduce), 2U);
    EXPECT_EQ(group.GenerationOf(program::CollectiveKind::kAllToAll), 0U);
    const std::int32_t mine = group.rank() + 10;
    std::int32_t from_the_one_before = -1;
    ExpectDone(group.Run(program::CollectiveKind::kAllToNext, &mine, &from_the_one_before, 1,
                         DataType::kI32, ReduceOp::kSum));
    EXPECT_EQ(from_the_one_before, group.rank() == 0 ? -1 : group.rank() + 9);
  });
}

TEST_P(CommunicatorTest, RefusesProgramsThatAreWrongAndGoesOn) {
  RunRanks(2, [](Communicator& group) {
    auto wrong = *MakeProgram("allreduce-ring-chunked", 2);
    wrong.ranks[0].blocks[0].steps.pop_back();
    for (const CollectivePlan& plan :
         {CollectivePlan{}, CollectivePlan{.program = MakeProgram("allreduce-ring", 3)},
          CollectivePlan{.program = std::make_shared<const program::Program>(wrong)}}) {
      const auto refused = group.Use(plan);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << refused.error().message;
    }
    float value = 1;
    const auto unplanned = group.Run(program::CollectiveKind::kCustom, &value, &value, 1,
                                     DataType::kF32, ReduceOp::kSum);
    ASSERT_FALSE(unplanned);
    EXPECT_EQ(unplanned.error().code, ErrorCode::kInvalidArgument);
    ExpectDone(group.AllReduce(&value, &value, 1, DataType::kF32, ReduceOp::kSum));
    EXPECT_EQ(value, 2);
  });
}

INSTANTIATE_TEST_SUITE_P(All, CommunicatorTest,
                         ::testing::Values(Medium::kShared, Medium::kTcp, Medium::kHosts),
                         [](const auto& test) { return std::string(MediumName(test.param)); });

class HostsTest : public RanksTest {};
INSTANTIATE_TEST_SUITE_P(All, HostsTest, ::testing::Values(Medium::kHosts),
                         [](const auto& /*test*/) { return "hosts"; });

TEST_P(HostsTest, RunsHierarchicalAlgorithms) {
  ranks_per_host_ = 3;
  for (const char* name : {"allreduce-hierarchical", "allreduce-bcube", "allgather-hierarchical",
                           "reduce-scatter-hierarchical", "broadcast-hierarchical",
                           "reduce-hierarchical", "alltoall-two-step"}) {
    ranks_per_host_ = 5 - ranks_per_host_;  // 2 and 3 in turns
    algorithm_ = name;
    group_name_ = name;
    RunRanks(6, [](Communicator& group) { ExpectEveryCollective(group, false); });
  }
}

TEST_P(HostsTest, RunsWithoutHierarchyOnUnequalHosts) {
  algorithm_ = "allreduce-hierarchical";
  ranks_per_host_ = 3;
  RunRanks(5, [](Communicator& group) { ExpectEveryCollective(group, false); });
}

TEST_P(HostsTest, SendsToTheNextRankWithoutAPlan) {
  RunRanks(4, [](Communicator& group) {
    const std::int32_t mine = group.rank() + 10;
    std::int32_t from_the_one_before = -1;
    ExpectDone(group.Run(program::CollectiveKind::kAllToNext, &mine, &from_the_one_before, 1,
                         DataType::kI32, ReduceOp::kSum));
    if (group.rank() == 0) return;  // what it gets is undefined
    EXPECT_EQ(from_the_one_before, group.rank() + 9);
  });
}

TEST_P(CommunicatorTest, RunsPlansOfWhichEachRankHasItsPart) {
  const program::EncodedProgram whole(*MakeProgram("allreduce-ring-chunked", 4));
  const program::EncodedProgram other(*MakeProgram("allreduce-halving-doubling", 4));
  const auto part_of = [](const program::EncodedProgram& encoded, int rank) {
    return std::make_shared<const program::Program>(
        *program::DecodeProgram(encoded.PartOf(static_cast<std::size_t>(rank))));
  };
  RunRanks(4, [&](Communicator& group) {
    const int rank = group.rank();
    const auto refused = group.Use({.program = part_of(whole, (rank + 1) % 4), .generation = 1});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << refused.error().message;
    ExpectDone(group.Use({.program = part_of(whole, rank), .generation = 2}));
    EXPECT_EQ(group.GenerationOf(program::CollectiveKind::kAllReduce), 2U);
    ExpectAllReduce(group, {DataType::kF32, ReduceOp::kSum, 100'003, false});
    ExpectAllReduce(group, {DataType::kF64, ReduceOp::kAvg, 1, true});
  });
}

// The digests of the wholes tell parts of different programs apart.
TEST_P(CommunicatorTest, RefusesToMixPartsOfTwoPrograms) {
  program::Program changed = *MakeProgram("allreduce-ring-chunked", 3);
  changed.name = "another one";
  const std::vector<program::EncodedProgram> wholes = {
      program::EncodedProgram(*MakeProgram("allreduce-ring-chunked", 3)),
      program::EncodedProgram(changed)};
  std::atomic<int> found = 0;
  RunRanks(3, [&](Communicator& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    const auto part = program::DecodeProgram(wholes[rank == 1 ? 1 : 0].PartOf(rank));
    // A rank may learn of the end while it still puts the plan in force.
    auto done =
        group.Use({.program = std::make_shared<const program::Program>(*part), .generation = 1});
    float word = 1;
    if (done) done = group.AllReduce(&word, &word, 1, DataType::kF32, ReduceOp::kSum);
    ASSERT_FALSE(done);
    if (done.error().message.find("must make the same calls") != std::string::npos) ++found;
  });
  EXPECT_GT(found, 0);
}

class PlannedPortTest : public CommunicatorTest {
 protected:
  // Whether this machine has a connection between the two ports.
  static bool IsConnected(std::uint16_t from, std::uint16_t to) {
    std::ifstream table("/proc/net/tcp");
    const std::string text(std::istreambuf_iterator<char>(table), {});
    const auto place = [](std::uint16_t port) { return fmt::format("0100007F:{:04X}", port); };
    return text.find(place(from) + " " + place(to) + " 01") != std::string::npos;
  }
};
INSTANTIATE_TEST_SUITE_P(All, PlannedPortTest, ::testing::Values(Medium::kTcp),
                         [](const auto& /*test*/) { return "Tcp"; });

// Each direction of each edge has its own port, and the next plan can use the ports at once.
TEST_P(PlannedPortTest, SendsFromThePortsOfThePlanInEveryGeneration) {
  constexpr int kSize = 3;
  std::vector<std::uint16_t> ports(3 + 9);
  std::iota(ports.begin(), ports.end(), std::uint16_t{20'000});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      const auto own = static_cast<std::size_t>(rank);
      auto group = Communicator::Join(store_, "g", rank, kSize,
                                      {.medium = Medium::kTcp, .plan_port = ports[own]});
      ASSERT_TRUE(group) << group.error().message;
      const auto program = MakeProgram("allreduce-all-pairs", kSize);
      CollectivePlan plan = {.program = program};
      for (int peer = 0; peer < kSize; ++peer) {
        if (peer == rank) continue;
        plan.source_ports[{peer, 0}] = ports[3 + own * 3 + static_cast<std::size_t>(peer)];
      }
      for (plan.generation = 1; plan.generation < 4; ++plan.generation) {
        ExpectDone((*group)->Use(plan));
        ExpectAllReduce(**group, {DataType::kF32, ReduceOp::kSum, 10'000, false});
        for (const auto& [endpoint, port] : plan.source_ports) {
          EXPECT_TRUE(IsConnected(port, ports[static_cast<std::size_t>(endpoint.peer)]));
        }
        ExpectDone((*group)->Barrier());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(PlannedPortTest, SaysWhichPortIsTaken) {
  constexpr std::uint16_t port = 20'100;
  const auto taken = transport::ListenOn("127.0.0.1", port);
  ASSERT_TRUE(taken) << taken.error().message;
  RunRanks(2, [&](Communicator& group) {
    CollectivePlan plan = {.program = MakeProgram("allreduce-all-pairs", 2)};
    if (group.rank() == 0) plan.source_ports[{1, 0}] = port;
    const auto used = group.Use(plan);
    ASSERT_FALSE(used);
    if (group.rank() == 0) {
      EXPECT_EQ(used.error().code, ErrorCode::kAlreadyExists);
      EXPECT_NE(used.error().message.find(fmt::format("127.0.0.1:{}", port)), std::string::npos)
          << used.error().message;
    }
    ASSERT_FALSE(group.Barrier());
  });
}

}  // namespace
}  // namespace espalier::runtime
