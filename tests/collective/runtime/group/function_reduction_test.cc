#include "collective/runtime/group/function_reduction.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/collective/runtime/collective_cases.h"
#include "tests/collective/runtime/ranks_test.h"

namespace espalier::runtime {
namespace {

class FunctionReductionTest : public RanksTest {};
INSTANTIATE_TEST_SUITE_P(All, FunctionReductionTest,
                         ::testing::Values(Medium::kShared, Medium::kTcp, Medium::kHosts),
                         [](const auto& test) { return std::string(MediumName(test.param)); });

// Twelve bytes. Combining them is neither commutative nor associative.
struct Element {
  std::uint32_t parts[3];
  bool operator==(const Element&) const = default;
};

Element Combine(const Element& left, const Element& right) {
  return {{3 * left.parts[0] + right.parts[0], left.parts[1] - 2 * right.parts[1],
           (left.parts[2] ^ right.parts[2]) + right.parts[0]}};
}

void CombineAll(std::byte* left, const std::byte* right, std::size_t count) {
  auto* const to = reinterpret_cast<Element*>(left);
  const auto* const from = reinterpret_cast<const Element*>(right);
  for (std::size_t i = 0; i < count; ++i) to[i] = Combine(to[i], from[i]);
}

ReductionFunction Function() { return {.element_bytes = sizeof(Element), .combine = CombineAll}; }

Element ElementOf(int rank, std::size_t index) {
  const auto seed = static_cast<std::uint32_t>(rank * 7919 + static_cast<int>(index));
  return {{seed, seed * seed, ~seed}};
}

Element ResultOf(int ranks, std::size_t index) {
  Element result = ElementOf(0, index);
  for (int rank = 1; rank < ranks; ++rank) result = Combine(result, ElementOf(rank, index));
  return result;
}

std::vector<Element> ElementsOf(int rank, std::size_t count) {
  std::vector<Element> elements(count);
  for (std::size_t i = 0; i < count; ++i) elements[i] = ElementOf(rank, i);
  return elements;
}

std::vector<Element> ResultsOf(int ranks, std::size_t begin, std::size_t count) {
  std::vector<Element> results(count);
  for (std::size_t i = 0; i < count; ++i) results[i] = ResultOf(ranks, begin + i);
  return results;
}

void ExpectAll(Communicator& group, std::size_t count) {
  const int rank = group.rank();
  const int size = group.size();
  const std::vector<Element> expected = ResultsOf(size, 0, count);
  std::vector<Element> input = ElementsOf(rank, count);
  std::vector<Element> output(count);
  ExpectDone(AllReduceBy(group, input.data(), output.data(), count, Function()));
  EXPECT_TRUE(output == expected) << "rank " << rank << " of " << size << ", " << count;
  const int root = static_cast<int>(count) % size;
  output.assign(count, {});
  ExpectDone(ReduceBy(group, input.data(), rank == root ? output.data() : nullptr, count,
                      Function(), root));
  EXPECT_TRUE(output == (rank == root ? expected : std::vector<Element>(count)));
  EXPECT_TRUE(input == ElementsOf(rank, count));
  ExpectDone(AllReduceBy(group, input.data(), input.data(), count, Function()));
  EXPECT_TRUE(input == expected) << "in place, rank " << rank << " of " << size << ", " << count;
  const auto parts = ElementsOf(rank, count * static_cast<std::size_t>(size));
  output.assign(count, {});
  ExpectDone(ReduceScatterBy(group, parts.data(), output.data(), count, Function()));
  EXPECT_TRUE(output == ResultsOf(size, count * static_cast<std::size_t>(rank), count));
}

TEST_P(FunctionReductionTest, CombinesInTheOrderOfTheRanks) {
  for (int size = 1; size <= 9; ++size) {
    group_name_ = "of " + std::to_string(size);
    RunRanks(size, [](Communicator& group) {
      for (const std::size_t count : {0U, 1U, 5U, 10'007U}) ExpectAll(group, count);
    });
  }
}

TEST_P(FunctionReductionTest, CombinesLargeData) {
  RunRanks(3, [](Communicator& group) { ExpectAll(group, 200'003); });
}

TEST_P(FunctionReductionTest, RefusesWhatCannotBeAndGoesOn) {
  RunRanks(2, [](Communicator& group) {
    std::vector<Element> data(4);
    const auto refused = [](const Result<void>& result, const char* why) {
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
      EXPECT_NE(result.error().message.find(why), std::string::npos) << result.error().message;
    };
    refused(AllReduceBy(group, data.data(), data.data(), 4, {.element_bytes = 12, .combine = {}}),
            "function that reduces is null");
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{2} << 20}) {
      refused(AllReduceBy(group, data.data(), data.data(), 4,
                          {.element_bytes = bytes, .combine = CombineAll}),
              "out of range");
    }
    refused(AllReduceBy(group, data.data(), data.data(), SIZE_MAX - 2, Function()), "negative");
    refused(AllReduceBy(group, nullptr, data.data(), 4, Function()), "null");
    refused(ReduceBy(group, data.data(), data.data(), 4, Function(), 2), "is not a rank");
    ExpectAll(group, 3);
  });
}

// The rank whose function fails ends the call for all.
TEST_P(FunctionReductionTest, EndsTheGroupIfTheFunctionThrows) {
  RunRanks(3, [](Communicator& group) {
    std::vector<Element> data(9);
    const int rank = group.rank();
    const auto throws = [rank](std::byte*, const std::byte*, std::size_t) {
      if (rank == 1) throw std::runtime_error("no result");
    };
    const auto done = AllReduceBy(group, data.data(), data.data(), data.size(),
                                  {.element_bytes = sizeof(Element), .combine = throws});
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("has failed on rank 1: no result"), std::string::npos)
        << done.error().message;
  });
}

TEST_P(FunctionReductionTest, NamesRanksWithOtherElements) {
  RunRanks(2, [](Communicator& group) {
    std::vector<Element> data(12);
    ReductionFunction function = Function();
    if (group.rank() == 1) function.element_bytes = 4;
    auto done = AllReduceBy(group, data.data(), data.data(), 4, function);
    if (done) done = group.Barrier();
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("rank "), std::string::npos) << done.error().message;
  });
}

}  // namespace
}  // namespace espalier::runtime
