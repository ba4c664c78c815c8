#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/collective/runtime/collective_cases.h"
#include "tests/collective/runtime/elements.h"
#include "tests/collective/runtime/ranks_test.h"

namespace espalier::runtime {
namespace {

using reduce::DataType;
using reduce::ReduceOp;

class RegisteredBufferTest : public RanksTest {};
INSTANTIATE_TEST_SUITE_P(All, RegisteredBufferTest, ::testing::Values(Medium::kShared),
                         [](const auto& /*test*/) { return "Shared"; });

TEST_P(RegisteredBufferTest, ServesEveryCollectiveAsTheReference) {
  for (const int size : {1, 2, 3, 4, 7}) {
    group_name_ = "of " + std::to_string(size);
    RunRanks(size, [](Communicator& group) { ExpectEveryCollective(group, true); });
  }
}

// Counts mappings of registered buffers in this process, which has all ranks.
int CountMappings() {
  std::ifstream areas("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(areas, line);) {
    count += line.find("/memfd:espalier-buffer") != std::string::npos ? 1 : 0;
  }
  return count;
}

// Counts what each of three ranks has mapped of the others after a call.
TEST_P(RegisteredBufferTest, IsReadAndWrittenByPeersDirectly) {
  constexpr std::size_t kCount = 90'000;  // too long for the small protocol
  struct Row {
    std::string name;
    std::function<Result<void>(Communicator&, float* in, float* out)> call;
    int mappings;
  };
  const std::vector<Row> rows = {
      {"allgather",
       [](Communicator& g, float* in, float* out) {
         return g.AllGather(in, out, kCount, DataType::kF32);
       },
       6},
      {"reduce-scatter",
       [](Communicator& g, float* in, float* out) {
         return g.ReduceScatter(in, out, kCount, DataType::kF32, ReduceOp::kSum);
       },
       6},
      {"alltoall",
       [](Communicator& g, float* in, float* out) {
         return g.AllToAll(in, out, kCount, DataType::kF32);
       },
       6},
      // In place, peers would read data that has been overwritten.
      {"alltoall in place",
       [](Communicator& g, float* in, float*) {
         return g.AllToAll(in, in, kCount, DataType::kF32);
       },
       0},
      // Two ranks map the root's buffer, and the root maps theirs.
      {"broadcast",
       [](Communicator& g, float* in, float*) {
         return g.Broadcast(in, kCount, DataType::kF32, 1);
       },
       4},
      {"reduce",
       [](Communicator& g, float* in, float* out) {
         return g.Reduce(in, out, kCount, DataType::kF32, ReduceOp::kSum, 1);
       },
       8},
      {"allreduce",
       [](Communicator& g, float* in, float* out) {
         return g.AllReduce(in, out, kCount, DataType::kF32, ReduceOp::kSum);
       },
       12}};
  for (const Row& row : rows) {
    group_name_ = row.name;
    RunRanks(3, [&](Communicator& group) {
      const auto in = group.Allocate(3 * kCount * sizeof(float));
      const auto out = group.Allocate(3 * kCount * sizeof(float));
      ASSERT_TRUE(in && out);
      ExpectDone(group.Barrier());
      const int before = CountMappings();
      ExpectDone(group.Barrier());
      ExpectDone(row.call(group, static_cast<float*>(*in), static_cast<float*>(*out)));
      ExpectDone(group.Barrier());
      EXPECT_EQ(CountMappings() - before, row.mappings) << row.name;
      ExpectDone(group.Barrier());
    });
  }
}

TEST_P(RegisteredBufferTest, ReducesInPlaceAndOutOfPlaceAndIsReleased) {
  RunRanks(3, [](Communicator& group) {
    constexpr std::size_t kCount = 2'100'003;
    auto from = group.Allocate(kCount * 4);
    auto to = group.Allocate(kCount * 4 + 64);
    ASSERT_TRUE(from && to);
    auto* input = static_cast<std::byte*>(*from);
    // At another offset of each rank's buffer, and not at its begin.
    auto* output = static_cast<std::byte*>(*to) + 4 * group.rank();
    for (std::size_t e = 0; e < kCount; ++e) {
      WriteElement(DataType::kF32, input, e, ValueOf(ReduceOp::kSum, group.rank(), 3, e));
    }
    for (std::byte* result : {output, input}) {
      ExpectDone(group.AllReduce(input, result, kCount, DataType::kF32, ReduceOp::kSum));
      for (std::size_t e = 0; e < kCount; ++e) {
        const int expected = ReducedValue(ReduceOp::kSum, 3, e);
        if (ReadElement(DataType::kF32, result, e) != expected) FAIL() << "element " << e;
      }
    }
    ExpectDone(group.Barrier());
    ExpectDone(group.Release(*from));
    const auto again = group.Release(*from);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, ErrorCode::kNotFound);
  });
}

// For systems that give huge pages on request.
TEST_P(RegisteredBufferTest, AsksForHugePagesWhereverItIsMapped) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) {
    GTEST_SKIP() << "a kernel without huge pages";
  }
  constexpr std::size_t kBytes = 8 << 20;
  RunRanks(2, [](Communicator& group) {
    auto memory = group.Allocate(kBytes);
    ASSERT_TRUE(memory);
    auto* data = static_cast<float*>(*memory);
    ExpectDone(group.AllReduce(data, data, kBytes / sizeof(float), DataType::kF32, ReduceOp::kSum));
    ExpectDone(group.Barrier());
    if (group.rank() == 0) {
      std::ifstream areas("/proc/self/smaps");
      int mapped = 0;
      bool is_buffer = false;
      for (std::string line; std::getline(areas, line);) {
        const bool begins_area = line.substr(0, line.find(' ')).find('-') != std::string::npos;
        if (begins_area) is_buffer = line.find("/memfd:espalier-buffer") != std::string::npos;
        if (!is_buffer || !line.starts_with("VmFlags:")) continue;
        ++mapped;
        EXPECT_NE(line.find(" hg"), std::string::npos) << line;
      }
      EXPECT_GE(mapped, 4);  // both ranks have both
    }
    ExpectDone(group.Barrier());
  });
}

// A private buffer of one rank makes all ranks use staging.
TEST_P(RegisteredBufferTest, WorksWithPrivateBuffersOfOthers) {
  RunRanks(2, [](Communicator& group) {
    constexpr std::size_t kCount = 300'000;
    std::vector<float> mine(kCount, 1);
    float* data = mine.data();
    if (group.rank() == 0) {
      auto memory = group.Allocate(kCount * sizeof(float));
      ASSERT_TRUE(memory);
      data = static_cast<float*>(*memory);
      std::fill_n(data, kCount, 2.0F);
    }
    ExpectDone(group.AllReduce(data, data, kCount, DataType::kF32, ReduceOp::kSum));
    EXPECT_TRUE(std::all_of(data, data + kCount, [](float value) { return value == 3; }));
  });
}

TEST(RegisteredBuffer, IsNotForTcp) {
  TemporaryFolder folder;
  transport::FileStore store(folder.path());
  auto group = Communicator::Join(store, "g", 0, 1, {.medium = Medium::kTcp});
  ASSERT_TRUE(group) << group.error().message;
  const auto memory = (*group)->Allocate(4096);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace espalier::runtime
