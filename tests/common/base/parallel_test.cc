#include "common/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "common/os/large_memory.h"

namespace espalier {
namespace {

TEST(ForRanges, CoversEachNumberOnceInOrder) {
  for (const int parts : {1, 2, 3, 7}) {
    for (const std::size_t count : {0U, 1U, 2U, 6U, 7U, 1'000U}) {
      SCOPED_TRACE(testing::Message() << parts << " parts of " << count);
      std::vector<std::size_t> owner(count, 99);
      std::atomic<int> calls = 0;
      ForRanges(parts, count, [&](std::size_t part, std::size_t begin, std::size_t end) {
        ++calls;
        for (std::size_t i = begin; i < end; ++i) owner[i] = part;
      });
      EXPECT_EQ(calls, parts);
      const std::size_t least = count / static_cast<std::size_t>(parts);
      std::vector<std::size_t> sizes(static_cast<std::size_t>(parts), 0);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_LT(owner[i], sizes.size());
        EXPECT_LE(owner[i > 0 ? i - 1 : 0], owner[i]);
        ++sizes[owner[i]];
      }
      for (const std::size_t size : sizes) {
        EXPECT_GE(size, least);
        EXPECT_LE(size, least + 1);
      }
    }
  }
}

TEST(ForRanges, WorksOnTheCallingThreadToo) {
  std::vector<std::thread::id> ids(3);
  ForRanges(3, 3, [&](std::size_t part, std::size_t, std::size_t) {
    ids[part] = std::this_thread::get_id();
  });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_NE(ids[2], ids[0]);
}

TEST(LargeMemory, IsAllocatedForAnySize) {
  struct alignas(64) Line {
    std::atomic<int> number{7};
  };
  for (const std::size_t count : {1U, 10U, 8'192U, 100'000U}) {
    std::vector<Line, LargePages<Line>> lines(count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lines.data()) % alignof(Line), 0U);
    EXPECT_EQ(lines.front().number + lines.back().number, 14);
    const bool is_large = count * sizeof(Line) >= std::size_t{1} << 20;
    if (is_large) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lines.data()) % (std::size_t{2} << 20), 0U);
    }
  }
}

TEST(LargeMemory, IsReservedForAnySize) {
  for (const std::size_t count : {0U, 10U, 3'000'000U}) {
    std::vector<int> numbers;
    ReserveLarge(numbers, count);
    EXPECT_GE(numbers.capacity(), count);
    numbers.resize(count, 5);
    EXPECT_TRUE(count == 0 || (numbers.front() == 5 && numbers.back() == 5));
  }
}

}  // namespace
}  // namespace espalier
