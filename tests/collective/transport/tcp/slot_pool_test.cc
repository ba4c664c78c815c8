#include "collective/transport/tcp/slot_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <set>
#include <vector>

namespace espalier::transport {
namespace {

// A memory resource with a limit that counts allocations.
class CountedMemory : public std::pmr::memory_resource {
 public:
  std::size_t bytes = 0;
  std::size_t limit = SIZE_MAX;

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    if (bytes + size > limit) throw std::bad_alloc();
    bytes += size;
    return std::pmr::new_delete_resource()->allocate(size, alignment);
  }
  void do_deallocate(void* memory, std::size_t size, std::size_t alignment) override {
    bytes -= size;
    std::pmr::new_delete_resource()->deallocate(memory, size, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

constexpr std::size_t kBytes = 192;

TEST(SlotPool, TakesTheLastReturnedSlotFirst) {
  CountedMemory memory;
  SlotPool pool(kBytes, &memory);
  std::byte* const first = pool.Take();
  std::byte* const second = pool.Take();
  EXPECT_NE(first, second);
  pool.Give(second);
  pool.Give(first);
  EXPECT_EQ(pool.Take(), first);
  EXPECT_EQ(pool.Take(), second);
  EXPECT_EQ(memory.bytes, 2 * kBytes);
}

TEST(SlotPool, AllocatesTheMostSlotsInUseAndFreesThemAtTheEnd) {
  CountedMemory memory;
  {
    SlotPool pool(kBytes, &memory);
    for (int round = 0; round < 3; ++round) {
      std::set<std::byte*> slots;
      for (int i = 0; i < 10; ++i) {
        std::byte* const slot = pool.Take();
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slot) % 64, 0U);
        EXPECT_TRUE(slots.insert(slot).second);
      }
      for (std::byte* slot : slots) pool.Give(slot);
    }
    EXPECT_EQ(memory.bytes, 10 * kBytes);
    pool.Take();  // not given back
  }
  EXPECT_EQ(memory.bytes, 0U);
}

TEST(SlotPool, SurvivesALackOfMemory) {
  CountedMemory memory;
  memory.limit = 2 * kBytes;
  SlotPool pool(kBytes, &memory);
  std::byte* const first = pool.Take();
  pool.Take();
  EXPECT_THROW(pool.Take(), std::bad_alloc);
  pool.Give(first);
  EXPECT_EQ(pool.Take(), first);
}

}  // namespace
}  // namespace espalier::transport
