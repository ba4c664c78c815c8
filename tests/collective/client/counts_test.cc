#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/client/collective.h"
#include "collective/program/program_bytes.h"
#include "collective/runtime/offload/offload_service.h"
#include "tests/temporary_folder.h"

namespace espalier {
namespace {

using Counts = std::vector<std::size_t>;

std::size_t SumOf(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::size_t BeginOf(const Counts& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}

// The value of rank `rank` at element `index` of the buffer with all parts: a small whole number.
int ValueOf(int rank, std::size_t index) {
  return static_cast<int>((index * 7 + static_cast<std::size_t>(rank) * 5) % 11) + 1;
}

int ReducedOf(espalier_op op, int ranks, std::size_t index) {
  int result = ValueOf(0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const int value = ValueOf(rank, index);
    if (op == ESPALIER_SUM) result += value;
    if (op == ESPALIER_MIN) result = std::min(result, value);
    if (op == ESPALIER_MAX) result = std::max(result, value);
  }
  return result;
}

template <typename T>
std::vector<T> FilledBy(int rank, std::size_t begin, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(ValueOf(rank, begin + i));
  return values;
}

// A buffer without elements is null. A guard beyond the end detects writes too far.
template <typename T>
T* Data(std::vector<T>& guarded) {
  return guarded.size() > 1 ? guarded.data() : nullptr;
}

template <typename T>
void ExpectAllGather(Collective& group, int rank, const Counts& counts, bool in_place) {
  const T guard = 99;
  const std::size_t own = counts[static_cast<std::size_t>(rank)];
  const std::size_t begin = BeginOf(counts, rank);
  const std::size_t all = SumOf(counts);
  std::vector<T> input = FilledBy<T>(rank, begin, own);
  std::vector<T> output(all + 1, guard);
  const T* from = own > 0 ? input.data() : nullptr;
  if (in_place && own > 0) {
    std::copy(input.begin(), input.end(), output.begin() + static_cast<std::ptrdiff_t>(begin));
    from = output.data() + begin;
  }
  group.AllGatherV(from, Data(output), counts);
  std::vector<T> expected;
  for (int peer = 0; peer < static_cast<int>(counts.size()); ++peer) {
    const auto part =
        FilledBy<T>(peer, BeginOf(counts, peer), counts[static_cast<std::size_t>(peer)]);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  expected.push_back(guard);
  EXPECT_TRUE(output == expected) << "rank " << rank << " of " << counts.size();
  EXPECT_TRUE(in_place || input == FilledBy<T>(rank, begin, own));
}

template <typename T>
void ExpectReduceScatter(Collective& group, int rank, const Counts& counts, espalier_op op,
                         bool in_place) {
  const T guard = 99;
  const auto ranks = static_cast<int>(counts.size());
  const std::size_t own = counts[static_cast<std::size_t>(rank)];
  const std::size_t begin = BeginOf(counts, rank);
  std::vector<T> input = FilledBy<T>(rank, 0, SumOf(counts));
  input.push_back(guard);
  std::vector<T> output(own + 1, guard);
  T* to = in_place ? input.data() + begin : Data(output);
  group.ReduceScatterV(Data(input), to, counts, op);
  std::vector<T> expected(own);
  for (std::size_t i = 0; i < own; ++i) {
    expected[i] = static_cast<T>(ReducedOf(op, ranks, begin + i));
  }
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), in_place ? to : output.data()))
      << "rank " << rank << " of " << ranks << ", op " << op;
  EXPECT_EQ(output.back(), guard);
  EXPECT_EQ(input.back(), guard);
  if (!in_place) {
    input.pop_back();
    EXPECT_TRUE(input == FilledBy<T>(rank, 0, SumOf(counts)));
  }
}

// Odd counts, zeros, one rank only, no elements; one part of several slots and messages.
std::vector<Counts> Distributions(int ranks) {
  const auto size = static_cast<std::size_t>(ranks);
  std::vector<Counts> all = {Counts(size, 0), Counts(size, 3), Counts(size, 0), Counts(size),
                             Counts(size)};
  all[2][size - 1] = 1001;
  for (std::size_t rank = 0; rank < size; ++rank) {
    all[3][rank] = rank % 3 == 1 ? 0 : rank * 37 + 5;
    all[4][rank] = rank % 2 == 1 ? 300'007 / size : rank * 13;
  }
  return all;
}

class CountsTest : public testing::TestWithParam<espalier_medium> {
 protected:
  void RunRanks(int size, const std::function<void(Collective&, int)>& body) {
    std::vector<std::thread> threads;
    const std::string name = "group of " + std::to_string(size);
    // A failed call ends the group, even for a rank that is still joining.
    std::barrier all_have_joined(size);
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        std::optional<Collective> group;
        try {
          group.emplace(folder_.path(), name, rank, size,
                        espalier_comm_options{.medium = GetParam()});
          all_have_joined.arrive_and_wait();
          body(*group, rank);
        } catch (const CollectiveError& error) {
          if (!group) all_have_joined.arrive_and_drop();
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Over TCP a rank may learn of it from a peer's abort, with the peer's message.
  void ExpectMismatch(const CollectiveError& error) const {
    const bool is_told = GetParam() == ESPALIER_TCP && error.code() == -ECONNABORTED;
    EXPECT_TRUE(is_told || error.code() == -EPROTO) << error.code() << ": " << error.what();
  }

  TemporaryFolder folder_;
};

TEST_P(CountsTest, AreAsTheReference) {
  for (int size = 1; size <= 8; ++size) {
    const auto distributions = Distributions(size);
    RunRanks(size, [&](Collective& group, int rank) {
      bool in_place = false;
      for (const Counts& counts : distributions) {
        ExpectAllGather<float>(group, rank, counts, in_place);
        ExpectAllGather<std::uint8_t>(group, rank, counts, !in_place);
        ExpectReduceScatter<double>(group, rank, counts, ESPALIER_SUM, in_place);
        ExpectReduceScatter<std::int32_t>(group, rank, counts, ESPALIER_MAX, !in_place);
        ExpectReduceScatter<std::int64_t>(group, rank, counts, ESPALIER_SUM, in_place);
        ExpectReduceScatter<std::uint8_t>(group, rank, counts, ESPALIER_MIN, !in_place);
        in_place = !in_place;
      }
      // Calls with equal parts still work.
      std::int64_t one = rank;
      std::vector<std::int64_t> all(distributions[0].size());
      group.AllGather(&one, all.data(), 1);
      EXPECT_EQ(all.back(), static_cast<std::int64_t>(all.size()) - 1);
    });
  }
}

// Every rank gets an error that names the rank with other counts or none, and the group ends.
TEST_P(CountsTest, ThatDifferAreAnErrorOnEveryRank) {
  RunRanks(3, [this](Collective& group, int rank) {
    const Counts counts = rank == 2 ? Counts{5, 0, 7} : Counts{5, 7, 0};
    std::vector<float> input(12, 1);
    std::vector<float> output(12);
    const auto words_of = [&] {
      try {
        group.ReduceScatterV(input.data(), output.data(), counts);
      } catch (const CollectiveError& error) {
        ExpectMismatch(error);
        return std::string(error.what());
      }
      return std::string("no error");
    };
    const std::string words = words_of();
    EXPECT_NE(words.find("rank 2 "), std::string::npos) << words;
    EXPECT_NE(words.find("the counts differ"), std::string::npos) << words;
    EXPECT_EQ(words_of(), words);
  });
  RunRanks(2, [this](Collective& group, int rank) {
    const std::vector<float> input(4, 1);
    std::vector<float> output(8);
    try {
      if (rank == 0) group.AllGather(input.data(), output.data(), 4);
      if (rank == 1) group.AllGatherV(input.data(), output.data(), Counts{4, 4});
      ADD_FAILURE() << "no error";
    } catch (const CollectiveError& error) {
      ExpectMismatch(error);
      EXPECT_NE(std::string(error.what()).find("in unequal parts"), std::string::npos)
          << error.what();
    }
  });
}

TEST_P(CountsTest, ThatAreInvalidAreRefusedAndTheGroupGoesOn) {
  RunRanks(2, [](Collective& group, int rank) {
    std::vector<float> data(30, 1);
    const auto refused = [&](int code, const std::function<void()>& call) {
      try {
        call();
        ADD_FAILURE() << "no error";
      } catch (const CollectiveError& error) {
        EXPECT_EQ(error.code(), code) << error.what();
      }
    };
    constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
    float* const in = data.data();
    float* const out = data.data() + 10;
    refused(-EINVAL, [&] { group.AllGatherV(in, out, Counts{kMost, 2}); });
    refused(-EINVAL, [&] { group.AllGatherV(in, out, Counts{kMost / 2, 1}); });
    refused(-EINVAL, [&] { group.ReduceScatterV(in, out, Counts{kMost / 2, kMost / 2 + 2}); });
    refused(-EINVAL, [&] { group.AllGatherV(in, out, Counts{1}); });
    refused(-EINVAL, [&] { group.AllGatherV(in, out, Counts{1, 1, 1}); });
    refused(-EINVAL, [&] { group.AllGatherV<float>(nullptr, out, Counts{1, 1}); });
    refused(-EINVAL, [&] { group.ReduceScatterV<float>(in, nullptr, Counts{1, 1}); });
    refused(-EINVAL, [&] { group.ReduceScatterV(in, in + 9, Counts{8, 3}); });
    // In place means the unequal part's own offset, not that of equal parts.
    refused(-EINVAL, [&] { group.AllGatherV(in + 5 * rank + 1, in, Counts{7, 3}); });
    group.AllGatherV(in + 7 * rank, in, Counts{7, 3});
    group.ReduceScatterV(in, out + 10, Counts{3, 2});
    EXPECT_EQ(out[10], 2);
  });
}

// Plans cover equal parts only, and stay in force for them.
TEST_P(CountsTest, BypassAPlan) {
  RunRanks(3, [](Collective& group, int rank) {
    for (const char* name : {"allgather-ring", "reduce-scatter-ring"}) {
      const auto plan = algorithms::MakeAlgorithm(name, {.ranks = 3});
      ASSERT_TRUE(plan);
      const std::string program = program::EncodeProgram(*plan);
      group.Use({.program = program.data(), .program_bytes = program.size(), .generation = 1});
    }
    for (const Counts& counts : Distributions(3)) {
      ExpectAllGather<float>(group, rank, counts, false);
      ExpectReduceScatter<float>(group, rank, counts, ESPALIER_SUM, false);
      const auto part = static_cast<float>(rank);
      std::vector<float> all(3);
      group.AllGather(&part, all.data(), 1);
      EXPECT_EQ(all, (std::vector<float>{0, 1, 2}));
    }
  });
}

// The counts may be freed after posting, and calls end in their order.
TEST_P(CountsTest, ArePosted) {
  RunRanks(3, [](Collective& group, int rank) {
    const std::size_t own = static_cast<std::size_t>(rank) * 3 + 1;
    const auto begin = static_cast<std::size_t>(rank == 0 ? 0 : rank == 1 ? 1 : 5);
    const std::vector<float> part = FilledBy<float>(rank, begin, own);
    const std::vector<float> whole = FilledBy<float>(rank, 0, 12);
    std::vector<float> gathered(12);
    std::vector<float> reduced(own);
    auto counts = std::make_unique<Counts>(Counts{1, 4, 7});
    const auto first = group.PostAllGatherV(part.data(), gathered.data(), *counts);
    const auto second =
        group.PostReduceScatterV(whole.data(), reduced.data(), *counts, ESPALIER_MAX);
    std::fill(counts->begin(), counts->end(), std::size_t{1} << 40);
    counts.reset();
    group.Wait(second);
    EXPECT_TRUE(group.Test(first));
    for (int peer = 0; peer < 3; ++peer) {
      const auto start = static_cast<std::size_t>(peer == 0 ? 0 : peer == 1 ? 1 : 5);
      const auto values = FilledBy<float>(peer, start, static_cast<std::size_t>(peer) * 3 + 1);
      EXPECT_TRUE(std::equal(values.begin(), values.end(),
                             gathered.begin() + static_cast<std::ptrdiff_t>(start)));
    }
    for (std::size_t i = 0; i < own; ++i) {
      EXPECT_EQ(reduced[i], static_cast<float>(ReducedOf(ESPALIER_MAX, 3, begin + i)));
    }
    const auto refused = group.PostAllGatherV<float>(nullptr, gathered.data(), Counts{1, 1, 1});
    EXPECT_THROW(group.Wait(refused), CollectiveError);
    EXPECT_THROW(group.PostAllGatherV(part.data(), gathered.data(), Counts{1}), CollectiveError);
  });
}

INSTANTIATE_TEST_SUITE_P(Media, CountsTest, testing::Values(ESPALIER_SHARED_MEMORY, ESPALIER_TCP),
                         [](const auto& test) {
                           return test.param == ESPALIER_TCP ? "Tcp" : "SharedMemory";
                         });

TEST(Counts, WorkInOffloadedGroups) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/engine.sock";
  auto engine =
      runtime::OffloadService::Listen(path, {.networks = {*IpPrefix::Parse("127.0.0.0/8")}});
  ASSERT_TRUE(engine) << engine.error().message;
  const std::string store = "tcp://127.0.0.1:3003";
  const Counts counts = {5, 2};
  const auto join = [&](int rank) {
    Collective group(store, "g", rank, 2, {.offload = path.c_str()});
    ExpectAllGather<float>(group, rank, counts, false);
    ExpectAllGather<float>(group, rank, counts, true);
  };
  std::thread other([&] { join(1); });
  join(0);
  other.join();
}

}  // namespace
}  // namespace espalier
