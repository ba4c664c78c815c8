#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace espalier::transport {

// Slots of one size, aligned to 64 bytes. What was given back last is taken first, so that as much
// memory is used, and as little of the caches, as messages wait at the same time.
// Thread safety: one thread at a time.
class SlotPool {
 public:
  explicit SlotPool(std::size_t slot_bytes) : slot_bytes_(slot_bytes) {}

  std::size_t slot_bytes() const { return slot_bytes_; }
  std::byte* Take();
  void Give(std::byte* slot) { free_.push_back(slot); }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };

  std::size_t slot_bytes_;
  std::vector<std::unique_ptr<std::byte, Free>> all_;
  std::vector<std::byte*> free_;
};

}  // namespace espalier::transport
