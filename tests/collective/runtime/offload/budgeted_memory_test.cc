#include "collective/runtime/offload/budgeted_memory.h"

#include <gtest/gtest.h>

#include <limits>
#include <new>
#include <thread>
#include <vector>

namespace espalier::runtime {
namespace {

TEST(BudgetedMemory, EndsAtItsLimitAndAtThatOfItsParent) {
  BudgetedMemory all(1'000);
  BudgetedMemory one(800, &all);
  BudgetedMemory other(800, &all);
  void* const memory = one.allocate(700);
  EXPECT_EQ(one.used(), 700U);
  EXPECT_EQ(all.used(), 700U);
  EXPECT_THROW(static_cast<void>(one.allocate(101)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(other.allocate(301)), std::bad_alloc);
  EXPECT_EQ(other.used(), 0U) << "what was refused is not counted";
  EXPECT_EQ(all.used(), 700U);
  void* const rest = other.allocate(300);
  other.deallocate(rest, 300);
  one.deallocate(memory, 700);
  EXPECT_EQ(all.used(), 0U);
}

TEST(BudgetedMemory, CountsWhatIsAllocatedElsewhere) {
  BudgetedMemory memory(100);
  {
    const MemoryCharge charge(memory, 60);
    EXPECT_EQ(memory.used(), 60U);
    EXPECT_THROW(MemoryCharge(memory, 41), std::bad_alloc);
    EXPECT_THROW(MemoryCharge(memory, std::numeric_limits<std::size_t>::max()), std::bad_alloc);
  }
  EXPECT_EQ(memory.used(), 0U);
}

TEST(BudgetedMemory, IsForManyThreads) {
  BudgetedMemory all(64);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&all] {
      for (int round = 0; round < 10'000; ++round) {
        try {
          const MemoryCharge charge(all, 20);
          EXPECT_LE(all.used(), 64U);
        } catch (const std::bad_alloc&) {
          continue;  // three other threads hold all of it
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(all.used(), 0U);
}

}  // namespace
}  // namespace espalier::runtime
