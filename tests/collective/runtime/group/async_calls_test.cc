#include "collective/runtime/group/async_calls.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace espalier::runtime {
namespace {

// A group that makes no calls of its own.
class NoGroup : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Result<void> Run(program::CollectiveKind, const void*, void*, std::size_t, reduce::DataType,
                   reduce::ReduceOp, int) override {
    return {};
  }
  Result<void> RunUnequal(program::CollectiveKind, const void*, void*, std::span<const std::size_t>,
                          reduce::DataType, reduce::ReduceOp) override {
    return {};
  }
  Result<void> Use(CollectivePlan) override { return {}; }
  Result<void*> Allocate(std::size_t) override { return nullptr; }
  Result<void> Release(void*) override { return {}; }
  void Interrupt(const Error&) override {}
};

// Regression: a posted call that ran out of memory ended its program.
TEST(AsyncCalls, ACallThatThrowsFailsAndTheNextIsMade) {
  NoGroup group;
  AsyncCalls calls(group);
  const auto no_memory = calls.Post([](Group&) -> Result<void> { throw std::bad_alloc(); });
  const auto too_long = calls.Post([](Group&) -> Result<void> { throw std::length_error("long"); });
  const auto refused = calls.Post(
      [](Group&) -> Result<void> { return Fail(ErrorCode::kInvalidArgument, "no such call"); });
  const auto good = calls.Post([](Group&) { return Result<void>(); });
  EXPECT_TRUE(calls.Wait(good));
  EXPECT_EQ(calls.Wait(no_memory).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(calls.Wait(too_long).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(calls.Wait(refused).error().message, "no such call");
  EXPECT_TRUE(calls.Wait(refused)) << "a result is given once";
  EXPECT_EQ(calls.Wait(99).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace espalier::runtime
