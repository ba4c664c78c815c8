#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/runtime/choice/cost_table.h"
#include "collective/transport/tcp/tcp_transport.h"
#include "tests/collective/runtime/offload/offload_fixture.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using reduce::DataType;
using reduce::ReduceOp;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Elements of rank r are r + 1, so that sums are known.
void ExpectCollectives(Group& group, std::size_t count, std::int32_t* memory) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const std::int32_t mine = group.rank() + 1;
  const auto sum = static_cast<std::int32_t>(ranks * (ranks + 1) / 2);
  std::vector<std::int32_t> own(memory == nullptr ? 2 * count * ranks : 0);
  std::int32_t* const input = memory == nullptr ? own.data() : memory;
  std::int32_t* const output = input + count * ranks;
  const auto run = [&](CollectiveKind kind, int root = program::kNoRoot) {
    std::fill_n(input, count * ranks, mine);
    std::fill_n(output, count * ranks, -7);
    ExpectDone(group.Run(kind, input, kind == CollectiveKind::kBroadcast ? input : output, count,
                         DataType::kI32, ReduceOp::kSum, root));
  };
  run(CollectiveKind::kAllReduce);
  EXPECT_EQ(std::count(output, output + count, sum), static_cast<std::ptrdiff_t>(count));
  run(CollectiveKind::kReduceScatter);
  EXPECT_EQ(std::count(output, output + count, sum), static_cast<std::ptrdiff_t>(count));
  run(CollectiveKind::kReduce, 1);
  EXPECT_EQ(std::count(output, output + count, group.rank() == 1 ? sum : -7),
            static_cast<std::ptrdiff_t>(count));
  run(CollectiveKind::kBroadcast, 1);
  EXPECT_EQ(std::count(input, input + count, 2), static_cast<std::ptrdiff_t>(count));
  for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kAllToAll}) {
    run(kind);
    for (std::size_t r = 0; r < ranks; ++r) {
      EXPECT_EQ(output[r * count], static_cast<std::int32_t>(r + 1));
      EXPECT_EQ(output[(r + 1) * count - 1], static_cast<std::int32_t>(r + 1));
    }
  }
  ExpectDone(group.Run(CollectiveKind::kBarrier, nullptr, nullptr, 0, DataType::kI32,
                       ReduceOp::kSum, program::kNoRoot));
}

TEST_F(OffloadTest, DoesEveryCollectiveInMemoryOfTheGroupAndInTheCallers) {
  StartEngine();
  store_ = FreeStore();
  RunRanks(3, {}, [](Group& group) {
    constexpr std::size_t kCount = 20'001;
    ExpectCollectives(group, 11, nullptr);
    ExpectCollectives(group, kCount, nullptr);
    auto memory = group.Allocate(2 * 3 * kCount * sizeof(std::int32_t));
    ASSERT_TRUE(memory) << memory.error().message;
    ExpectCollectives(group, kCount, static_cast<std::int32_t*>(*memory));
    ExpectDone(group.Release(*memory));
    EXPECT_EQ(group.Release(*memory).error().code, ErrorCode::kNotFound);
  });
}

// Rank r has element i of the whole as 10 r + i, and counts[r] elements of it.
void ExpectUnequalParts(Group& group, const std::vector<std::size_t>& counts,
                        std::int32_t* memory) {
  const auto rank = static_cast<std::size_t>(group.rank());
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const std::size_t own = counts[rank];
  const auto value = [](std::size_t of, std::size_t index) {
    return static_cast<std::int32_t>(10 * of + index);
  };
  std::vector<std::int32_t> mine(memory == nullptr ? 2 * all + 2 : 0);
  std::int32_t* const part = memory == nullptr ? mine.data() : memory;
  std::int32_t* const whole = part + all + 1;
  const std::size_t begin = std::accumulate(
      counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(rank), std::size_t{0});
  const auto run = [&](CollectiveKind kind, const std::int32_t* input, std::int32_t* output) {
    ExpectDone(group.RunUnequal(kind, input, output, counts, DataType::kI32, ReduceOp::kSum));
  };
  std::fill_n(part, 2 * all + 2, -7);
  for (std::size_t i = 0; i < own; ++i) part[i] = value(rank, begin + i);
  run(CollectiveKind::kAllGather, own == 0 ? nullptr : part, whole);
  std::vector<std::int32_t> expected;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    for (std::size_t i = 0; i < counts[r]; ++i) expected.push_back(value(r, expected.size()));
  }
  EXPECT_EQ(std::vector<std::int32_t>(whole, whole + all), expected);
  EXPECT_EQ(whole[all], -7);
  for (std::size_t i = 0; i < all; ++i) whole[i] = value(rank, i);
  std::fill_n(part, all + 1, -7);
  run(CollectiveKind::kReduceScatter, whole, own == 0 ? nullptr : part);
  for (std::size_t i = 0; i < own; ++i) {
    std::int32_t sum = 0;
    for (std::size_t r = 0; r < counts.size(); ++r) sum += value(r, begin + i);
    EXPECT_EQ(part[i], sum);
  }
  EXPECT_EQ(part[own], -7);
}

TEST_F(OffloadTest, TakesACountForEachRank) {
  StartEngine();
  store_ = FreeStore();
  RunRanks(3, {}, [](Group& group) {
    for (const std::vector<std::size_t>& counts :
         {std::vector<std::size_t>{3, 0, 5}, std::vector<std::size_t>{0, 0, 1},
          std::vector<std::size_t>{30'001, 7, 12'000}, std::vector<std::size_t>{0, 0, 0}}) {
      ExpectUnequalParts(group, counts, nullptr);
      auto memory = group.Allocate(100'000 * sizeof(std::int32_t));
      ASSERT_TRUE(memory) << memory.error().message;
      ExpectUnequalParts(group, counts, static_cast<std::int32_t*>(*memory));
      ExpectDone(group.Release(*memory));
    }
  });
}

TEST_F(OffloadTest, RefusesCountsThatAreWrongAndGoesOn) {
  StartEngine();
  RunRanks(2, {}, [](Group& group) {
    std::vector<float> memory(20);
    const auto refused = [&](CollectiveKind kind, const std::vector<std::size_t>& counts) {
      const auto done = group.RunUnequal(kind, memory.data(), memory.data() + 10, counts,
                                         DataType::kF32, ReduceOp::kSum);
      return done ? "" : done.error().message;
    };
    EXPECT_EQ(refused(CollectiveKind::kAllGather, {1}),
              "1 counts for 2 ranks (give one for each rank)");
    EXPECT_EQ(refused(CollectiveKind::kAllReduce, {1, 1}),
              "allreduce takes no counts (only allgather and reduce_scatter do)");
    EXPECT_EQ(refused(CollectiveKind::kAllGather, {1, std::numeric_limits<std::size_t>::max()}),
              "the sum of the counts exceeds 64 bits");
    ExpectUnequalParts(group, {2, 1}, nullptr);
  });
  store_ = FreeStore();
  RunRanks(2, {.timeout = seconds(60)}, [](Group& group) {
    // Ranks with different counts get an error.
    const std::vector<std::size_t> counts =
        group.rank() == 0 ? std::vector<std::size_t>{1, 3} : std::vector<std::size_t>{3, 1};
    std::vector<float> memory(8);
    const auto done = group.RunUnequal(CollectiveKind::kAllGather, memory.data(), memory.data() + 4,
                                       counts, DataType::kF32, ReduceOp::kSum);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_NE(done.error().message.find("the counts differ"), std::string::npos)
        << done.error().message;
  });
}

TEST_F(OffloadTest, RunsPlans) {
  StartEngine();
  RunRanks(3, {}, [](Group& group) {
    auto made = algorithms::MakeAlgorithm("alltonext", {.ranks = 3});
    ASSERT_TRUE(made);
    auto program = std::make_shared<const program::Program>(std::move(*made));
    const std::uint16_t port = 0;
    ExpectDone(group.Use({.program = program, .generation = 3, .source_ports = {{{0, 0}, port}}}));
    const std::int32_t mine[2] = {group.rank(), 5};
    std::int32_t others[2] = {-1, -1};
    ExpectDone(group.Run(CollectiveKind::kAllToNext, mine, others, 2, DataType::kI32,
                         ReduceOp::kSum, program::kNoRoot));
    EXPECT_EQ(others[0], group.rank() - 1);
  });
}

TEST_F(OffloadTest, RefusesWhatIsWrongAndGoesOn) {
  StartEngine();
  const auto second = OffloadService::Listen(path_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAlreadyExists);
  const auto nobody = OffloadedGroup::Join(folder_.path() + "/none", store_, "g", 0, 1, {});
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::kUnavailable);
  for (const std::string& store : {folder_.path(), std::string("tcp://127.0.0.1:80"),
                                   std::string("tcp://nowhere:9000"), std::string(400, 'x')}) {
    const auto joined = OffloadedGroup::Join(path_, store, "g", 0, 1, {});
    ASSERT_FALSE(joined) << store;
    const bool is_too_long = store.size() > 255;
    EXPECT_EQ(joined.error().code,
              is_too_long ? ErrorCode::kInvalidArgument : ErrorCode::kPermissionDenied)
        << joined.error().message;
  }
  RunRanks(2, {}, [](Group& group) {
    std::vector<float> data(8, 1);
    const auto overlap = group.Run(CollectiveKind::kAllGather, &data[1], data.data(), 2,
                                   DataType::kF32, ReduceOp::kSum, program::kNoRoot);
    ASSERT_FALSE(overlap);
    EXPECT_EQ(overlap.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(group.Use({}).error().code, ErrorCode::kInvalidArgument);
    ExpectCollectives(group, 3, nullptr);
  });
}

// Programs whose calls differ all get the error, whatever algorithm the offload service uses.
TEST_F(OffloadTest, TellsEveryProgramOfCallsThatDiffer) {
  StartEngine();
  struct Slip {
    std::size_t count;
    DataType type;
    ReduceOp op;
  };
  for (const Slip slip :
       {Slip{63, DataType::kF32, ReduceOp::kSum}, Slip{64, DataType::kI32, ReduceOp::kSum},
        Slip{64, DataType::kF32, ReduceOp::kMax}, Slip{1 << 18, DataType::kF32, ReduceOp::kSum}}) {
    store_ = FreeStore();
    RunRanks(3, {}, [&](Group& group) {
      std::vector<float> data(1 << 18);
      const Slip call = group.rank() == 2 ? slip : Slip{64, DataType::kF32, ReduceOp::kSum};
      const auto done = group.Run(CollectiveKind::kAllReduce, data.data(), data.data(), call.count,
                                  call.type, call.op, program::kNoRoot);
      ASSERT_FALSE(done);
      EXPECT_NE(done.error().message.find("rank 2"), std::string::npos) << done.error().message;
      const auto later = group.Run(CollectiveKind::kBarrier, nullptr, nullptr, 0, DataType::kU8,
                                   ReduceOp::kSum, program::kNoRoot);
      EXPECT_FALSE(later);
    });
  }
  ExpectWorks();
}

TEST_F(OffloadTest, NamesARankThatNeverComesAndRefusesProgramsOfOtherSizes) {
  StartEngine();
  store_ = FreeStore();
  std::vector<std::thread> threads;
  for (const int rank : {0, 2}) {
    threads.emplace_back([&, rank] {
      const auto joined = Join(rank, 3, {.timeout = milliseconds(300)});
      ASSERT_FALSE(joined);
      EXPECT_EQ(joined.error().code, ErrorCode::kUnavailable);
      const std::string& message = joined.error().message;
      EXPECT_TRUE(message.find("rank 1") != std::string::npos || message.ends_with(": 1"))
          << message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  store_ = FreeStore();
  RunRanks(3, {}, [](Group& group) {
    auto wrong = *algorithms::MakeAlgorithm("allreduce-ring", {.ranks = 3});
    wrong.ranks[0].blocks[0].steps.pop_back();
    for (const auto& program :
         {*algorithms::MakeAlgorithm("allreduce-ring", {.ranks = 2}),
          *algorithms::MakeAlgorithm("allreduce-ring", {.ranks = 4}), wrong}) {
      const auto used = group.Use({.program = std::make_shared<const program::Program>(program)});
      ASSERT_FALSE(used);
      EXPECT_EQ(used.error().code, ErrorCode::kInvalidArgument);
    }
    // Unaligned buffers, exactly sized ones, and no elements at all.
    std::vector<std::byte> memory(203, std::byte{0x5a});
    const std::vector<float> ones(25, 1);
    std::memcpy(&memory[51], ones.data(), 100);
    ExpectDone(group.Run(CollectiveKind::kAllReduce, &memory[51], &memory[51], 25, DataType::kF32,
                         ReduceOp::kSum, program::kNoRoot));
    const std::vector<float> threes(25, 3);
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits must agree
    EXPECT_EQ(std::memcmp(&memory[51], threes.data(), 100), 0);
    EXPECT_EQ(std::count(memory.begin(), memory.begin() + 51, std::byte{0x5a}), 51);
    EXPECT_EQ(std::count(memory.begin() + 151, memory.end(), std::byte{0x5a}), 52);
    ExpectDone(group.Run(CollectiveKind::kAllReduce, nullptr, nullptr, 0, DataType::kF32,
                         ReduceOp::kSum, program::kNoRoot));
    ExpectCollectives(group, 3, nullptr);
  });
}

// The offload service of the first rank has the file.
TEST_F(OffloadTest, ChoosesByItsFileOfCosts) {
  const std::string file = folder_.path() + "/costs";
  const auto missing = OffloadService::Listen(path_, {.costs_file = file});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  std::ofstream(file) << FormatCosts({{Medium::kTcp, 2, {.message = 1e-6}}});
  OffloadOptions options = Options();
  options.costs_file = file;
  engine_ = std::move(*OffloadService::Listen(path_, options));
  ExpectWorks();
  std::ofstream(file) << "nonsense\n";
  store_ = FreeStore();
  const auto joined = Join(0, 1, {});
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kInvalidArgument) << joined.error().message;
}

// Ranks are processes; the offload service survives the death of one.
TEST_F(OffloadTest, TellsOthersOfAProgramThatWasKilled) {
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  const CommunicatorOptions options = {.timeout = seconds(100)};
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    char go = 0;
    if (::read(gate[0], &go, 1) != 1) ::_exit(9);
    auto group = Join(rank, 3, options);
    if (!group) ::_exit(2);
    constexpr std::size_t kCount = 100'000;
    auto memory = (*group)->Allocate(kCount * sizeof(float));
    if (!memory) ::_exit(3);
    auto* data = static_cast<float*>(*memory);
    std::fill_n(data, kCount, 1.0F);
    for (int round = 0;; ++round) {
      if (rank == 1 && round == 5) ::raise(SIGKILL);
      const auto done = (*group)->Run(CollectiveKind::kAllReduce, data, data, kCount,
                                      DataType::kF32, ReduceOp::kMax, program::kNoRoot);
      if (!done) ::_exit(done.error().message.find("rank 1") != std::string::npos ? 0 : 4);
    }
  }
  StartEngine();
  ASSERT_EQ(::write(gate[1], "123", 3), 3);
  for (int rank = 0; rank < 3; ++rank) {
    int status = 0;
    ASSERT_GT(::waitpid(children[static_cast<std::size_t>(rank)], &status, 0), 0);
    if (rank == 1) {
      EXPECT_TRUE(WIFSIGNALED(status));
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << rank << " code " << WEXITSTATUS(status);
    }
  }
  ::close(gate[0]);
  ::close(gate[1]);
  ExpectWorks();
}

TEST_F(OffloadTest, EndsCallsWhenTheEngineStopsAndWhenTheyAreInterrupted) {
  StartEngine();
  std::barrier both_are_through(2);
  RunRanks(2, {}, [&](Group& group) {
    float value = 1;
    ExpectDone(group.Run(CollectiveKind::kBarrier, nullptr, nullptr, 0, DataType::kF32,
                         ReduceOp::kSum, program::kNoRoot));
    both_are_through.arrive_and_wait();
    if (group.rank() == 1) {
      // The other rank's call waits for this rank, which makes none.
      engine_.reset();
      return;
    }
    const auto done = group.Run(CollectiveKind::kAllReduce, &value, &value, 1, DataType::kF32,
                                ReduceOp::kSum, program::kNoRoot);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::kUnavailable);
  });
  StartEngine();
  store_ = FreeStore();
  RunRanks(1, {}, [](Group& group) {
    group.Interrupt({ErrorCode::kUnavailable, "a new plan"});
    float value = 1;
    const auto done = group.Run(CollectiveKind::kAllReduce, &value, &value, 1, DataType::kF32,
                                ReduceOp::kSum, program::kNoRoot);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message, "a new plan");
  });
  ExpectWorks();
}

}  // namespace
}  // namespace espalier::runtime
