#include "tests/collective/runtime/collective_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/collective/runtime/elements.h"

namespace espalier::runtime {

using reduce::DataType;
using reduce::ReduceOp;

namespace {

constexpr std::byte kUntouched{0xa5};
constexpr std::size_t kGuards = 256;

// Elements with guards around them, at any offset from an aligned address, in a registered buffer
// if the case asks for it.
class Data {
 public:
  Data(Communicator& group, const Case& test, std::size_t count, std::size_t offset = 0)
      : group_(group), type_(test.type), bytes_(count * SizeOf(type_)) {
    if (test.is_registered) {
      const auto memory = group.Allocate(bytes_ + kGuards);
      EXPECT_TRUE(memory) << memory.error().message;
      memory_ = registered_ = static_cast<std::byte*>(*memory);
    } else {
      private_.resize(bytes_ + kGuards);
      memory_ = private_.data();
    }
    std::fill_n(memory_, bytes_ + kGuards, kUntouched);
    begin_ = memory_ + 64 + offset;
  }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;
  ~Data() {
    if (registered_ != nullptr) ExpectDone(group_.Release(registered_));
  }

  std::byte* get() { return begin_; }
  void Fill(ReduceOp op, int rank, int ranks) {
    for (std::size_t e = 0; e < bytes_ / SizeOf(type_); ++e) {
      WriteElement(type_, begin_, e, ValueOf(op, rank, ranks, e));
    }
  }
  bool Is(std::size_t e, int value) const { return ReadElement(type_, begin_, e) == value; }
  void ExpectGuards() const {
    const auto is_untouched = [](std::byte byte) { return byte == kUntouched; };
    EXPECT_TRUE(std::all_of(memory_, begin_, is_untouched));
    EXPECT_TRUE(std::all_of(begin_ + bytes_, memory_ + bytes_ + kGuards, is_untouched));
  }

 private:
  Communicator& group_;
  DataType type_;
  std::size_t bytes_;
  std::vector<std::byte> private_;
  std::byte* registered_ = nullptr;
  std::byte* memory_;
  std::byte* begin_;
};

}  // namespace

void ExpectDone(const Result<void>& result) { ASSERT_TRUE(result) << result.error().message; }

void ExpectAllReduce(Communicator& group, const Case& test) {
  Data input(group, test, test.count, 3);
  Data output(group, test, test.count, 40);
  Data& from = test.in_place ? output : input;
  from.Fill(test.op, group.rank(), group.size());
  ExpectDone(group.AllReduce(from.get(), output.get(), test.count, test.type, test.op));
  for (std::size_t e = 0; e < test.count; ++e) {
    if (!output.Is(e, ReducedValue(test.op, group.size(), e))) FAIL() << "element " << e;
  }
  output.ExpectGuards();
}

void ExpectReduce(Communicator& group, const Case& test) {
  const int root = static_cast<int>(test.count) % group.size();
  Data input(group, test, test.count);
  Data output(group, test, test.count);
  Data& from = test.in_place ? output : input;
  from.Fill(test.op, group.rank(), group.size());
  ExpectDone(group.Reduce(from.get(), output.get(), test.count, test.type, test.op, root));
  for (std::size_t e = 0; e < test.count && group.rank() == root; ++e) {
    if (!output.Is(e, ReducedValue(test.op, group.size(), e))) FAIL() << "element " << e;
  }
  output.ExpectGuards();
}

void ExpectBroadcast(Communicator& group, const Case& test) {
  const int root = group.size() - 1;
  Data buffer(group, test, test.count, 5);
  buffer.Fill(test.op, group.rank(), group.size());
  ExpectDone(group.Broadcast(buffer.get(), test.count, test.type, root));
  for (std::size_t e = 0; e < test.count; ++e) {
    if (!buffer.Is(e, ValueOf(test.op, root, group.size(), e))) FAIL() << "element " << e;
  }
  buffer.ExpectGuards();
}

void ExpectAllGather(Communicator& group, const Case& test) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto part = test.count * SizeOf(test.type) * static_cast<std::size_t>(group.rank());
  Data input(group, test, test.count);
  Data output(group, test, test.count * ranks);
  input.Fill(test.op, group.rank(), group.size());
  std::byte* from = input.get();
  if (test.in_place) {
    from = output.get() + part;
    std::copy_n(input.get(), test.count * SizeOf(test.type), from);
  }
  ExpectDone(group.AllGather(from, output.get(), test.count, test.type));
  for (std::size_t e = 0; e < test.count * ranks; ++e) {
    const auto rank = static_cast<int>(e / test.count);
    if (!output.Is(e, ValueOf(test.op, rank, group.size(), e % test.count)))
      FAIL() << "element " << e;
  }
  output.ExpectGuards();
}

void ExpectReduceScatter(Communicator& group, const Case& test) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto first = test.count * static_cast<std::size_t>(group.rank());
  Data input(group, test, test.count * ranks);
  Data output(group, test, test.count);
  input.Fill(test.op, group.rank(), group.size());
  std::byte* to = test.in_place ? input.get() + first * SizeOf(test.type) : output.get();
  ExpectDone(group.ReduceScatter(input.get(), to, test.count, test.type, test.op));
  for (std::size_t e = 0; e < test.count; ++e) {
    const int expected = ReducedValue(test.op, group.size(), first + e);
    if (ReadElement(test.type, to, e) != expected) FAIL() << "element " << e;
  }
  input.ExpectGuards();
  output.ExpectGuards();
}

void ExpectAllToAll(Communicator& group, const Case& test) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto own = test.count * static_cast<std::size_t>(group.rank());
  Data input(group, test, test.count * ranks);
  Data output(group, test, test.count * ranks);
  Data& from = test.in_place ? output : input;
  from.Fill(test.op, group.rank(), group.size());
  ExpectDone(group.AllToAll(from.get(), output.get(), test.count, test.type));
  for (std::size_t e = 0; e < test.count * ranks; ++e) {
    const auto rank = static_cast<int>(e / test.count);
    if (!output.Is(e, ValueOf(test.op, rank, group.size(), own + e % test.count)))
      FAIL() << "element " << e;
  }
  output.ExpectGuards();
}

void ExpectEveryCollective(Communicator& group, bool is_registered) {
  // Small, odd, longer than a slot, longer than the streaming threshold.
  constexpr std::size_t kCounts[] = {0, 1, 13, 1000, 270'001};
  std::size_t draw = static_cast<std::size_t>(group.size());
  for (const std::size_t count : kCounts) {
    for (const auto collective : {ExpectAllReduce, ExpectReduce, ExpectBroadcast, ExpectAllGather,
                                  ExpectReduceScatter, ExpectAllToAll}) {
      const auto type = static_cast<DataType>(draw % 8);
      auto op = static_cast<ReduceOp>(draw / 2 % 5);
      // Integers have no averages.
      if (op == ReduceOp::kAvg && reduce::IsInteger(type)) op = ReduceOp::kSum;
      const Case test = {.type = type,
                         .op = op,
                         .count = group.size() > 3 ? count / 8 : count,
                         .in_place = draw % 3 == 0,
                         .is_registered = is_registered};
      ++draw;
      ASSERT_NO_FATAL_FAILURE(collective(group, test));
    }
    ExpectDone(group.Barrier());
  }
}

}  // namespace espalier::runtime
