#pragma once

#include <cstddef>
#include <memory_resource>
#include <vector>

namespace espalier::transport {

// Slots of one size, aligned to 64 bytes. What was given back last is taken first, so that as much
// memory is used, and as little of the caches, as messages wait at the same time. Take throws
// std::bad_alloc where the source has no more memory.
// Thread safety: one thread at a time. The source must outlive it.
class SlotPool {
 public:
  SlotPool(std::size_t slot_bytes, std::pmr::memory_resource* source)
      : slot_bytes_(slot_bytes), source_(source) {}
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;
  ~SlotPool();

  std::size_t slot_bytes() const { return slot_bytes_; }
  std::byte* Take();
  void Give(std::byte* slot) { free_.push_back(slot); }

 private:
  const std::size_t slot_bytes_;
  std::pmr::memory_resource* const source_;
  std::vector<std::byte*> all_;
  std::vector<std::byte*> free_;
};

}  // namespace espalier::transport
