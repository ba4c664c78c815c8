#pragma once

#include <cstddef>
#include <memory_resource>
#include <vector>

namespace espalier::transport {

// A pool of slots of one size, aligned to 64 bytes. The slot that was given back last is taken
// first, so memory and cache use grow only with the number of messages that wait at the same time.
// Take throws std::bad_alloc if the memory resource is exhausted. Thread safety: one thread at a
// time. The memory resource must outlive the pool.
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
