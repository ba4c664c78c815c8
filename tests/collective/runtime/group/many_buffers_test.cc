#include "collective/runtime/group/many_buffers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/collective/runtime/collective_cases.h"
#include "tests/collective/runtime/ranks_test.h"

namespace espalier::runtime {
namespace {

using reduce::DataType;
using reduce::ReduceOp;
using Inputs = std::vector<const void*>;
using Outputs = std::vector<void*>;

class ManyBuffersTest : public RanksTest {};
INSTANTIATE_TEST_SUITE_P(All, ManyBuffersTest, ::testing::Values(Medium::kShared, Medium::kTcp),
                         [](const auto& test) { return std::string(MediumName(test.param)); });

// Rank r has r + 1 inputs of the value r + 1, and an output more than rank 0.
TEST_P(ManyBuffersTest, ReduceAllInputsOfAllRanksTogether) {
  RunRanks(3, [](Communicator& group) {
    for (const std::size_t count : {0U, 1U, 5'003U}) {
      const auto own = static_cast<std::size_t>(group.rank() + 1);
      std::vector<std::vector<float>> inputs(own, std::vector<float>(count, float(own)));
      std::vector<float> more(count);
      Inputs from(inputs.size());
      for (std::size_t i = 0; i < own; ++i) from[i] = inputs[i].data();
      // The first output is the last input.
      const Outputs to = {inputs.back().data(), more.data()};
      ExpectDone(AllReduceMany(group, from, std::span(to).first(group.rank() == 0 ? 1 : 2), count,
                               DataType::kF32, ReduceOp::kSum));
      EXPECT_EQ(inputs.back(), std::vector<float>(count, 1 + 4 + 9));
      if (group.rank() > 0) {
        EXPECT_EQ(more, inputs.back());
        EXPECT_EQ(inputs[0], std::vector<float>(count, float(own)));
      }
    }
  });
}

TEST_P(ManyBuffersTest, ReduceEachByItself) {
  RunRanks(4, [](Communicator& group) {
    const std::vector<std::size_t> counts = {3, 0, 1'001, 1};
    std::vector<std::vector<std::int32_t>> inputs;
    std::vector<std::vector<std::int32_t>> outputs;
    for (const std::size_t count : counts) {
      inputs.emplace_back(count, group.rank() + static_cast<int>(count));
      outputs.emplace_back(count);
    }
    Inputs from;
    Outputs to;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      from.push_back(inputs[i].data());
      to.push_back(i == 2 ? inputs[i].data() : outputs[i].data());  // one in place
    }
    ExpectDone(AllReduceTogether(group, from, to, counts, DataType::kI32, ReduceOp::kMax));
    EXPECT_EQ(outputs[0], std::vector<std::int32_t>(3, 6));
    EXPECT_EQ(inputs[2], std::vector<std::int32_t>(1'001, 1'004));
    EXPECT_EQ(outputs[3], std::vector<std::int32_t>(1, 4));
  });
}

TEST_P(ManyBuffersTest, AreRefusedByTheirNumbers) {
  RunRanks(2, [](Communicator& group) {
    float value = 1;
    const Inputs two = {&value, &value};
    const Outputs one = {&value};
    const auto why = [](const Result<void>& result) {
      if (result) return std::string("not refused");
      EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
      return result.error().message;
    };
    const auto many = [&](const Inputs& inputs, const Outputs& outputs, std::size_t count,
                          ReduceOp op = ReduceOp::kSum) {
      return why(AllReduceMany(group, inputs, outputs, count, DataType::kF32, op));
    };
    EXPECT_EQ(many({}, one, 1), "give at least one input and one output");
    EXPECT_NE(many(two, one, 1, ReduceOp::kAvg).find("no clear divisor"), std::string::npos);
    EXPECT_EQ(many({&value, nullptr}, one, 1), "input 1 is null");
    EXPECT_NE(many(two, one, SIZE_MAX).find("negative"), std::string::npos);
    const auto together = [&](const std::vector<std::size_t>& counts) {
      return why(
          AllReduceTogether(group, two, {&one[0], 1}, counts, DataType::kF32, ReduceOp::kSum));
    };
    EXPECT_EQ(together({1, 1}), "2 inputs and 1 outputs for 2 counts (give one of each)");
    const Outputs outputs = {&value, &value};
    const std::vector<std::size_t> negative = {1, SIZE_MAX - 4};
    EXPECT_NE(why(AllReduceTogether(group, two, outputs, negative, DataType::kF32, ReduceOp::kSum))
                  .find("buffer 1 of"),
              std::string::npos);
    EXPECT_EQ(many({&value}, one, 1, ReduceOp::kAvg), "not refused");
  });
}

}  // namespace
}  // namespace espalier::runtime
