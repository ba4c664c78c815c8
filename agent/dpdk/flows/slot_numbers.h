#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace espalier::dpdk {

// Numbers of the places in an array that cores read. A number is used, removed but perhaps still
// visible to cores, or free. Thread safety: one thread.
class SlotNumbers {
 public:
  explicit SlotNumbers(std::uint32_t count) : used_(count, false) {
    for (std::uint32_t slot = count; slot > 0; --slot) free_.push_back(slot - 1);
  }

  // Returns a number that is used from now on; none if no number is free.
  std::optional<std::uint32_t> Take() {
    if (free_.empty()) return std::nullopt;
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    used_[slot] = true;
    return slot;
  }
  void Remove(std::uint32_t slot) {
    used_[slot] = false;
    removed_.push_back(slot);
  }
  bool IsUsed(std::uint32_t slot) const { return used_[slot]; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(used_.size()); }

  // Returns the numbers that were removed since the last call.
  std::vector<std::uint32_t> TakeRemoved() { return std::exchange(removed_, {}); }
  // These removed numbers are not visible to any core any more.
  void Free(std::span<const std::uint32_t> slots) {
    free_.insert(free_.end(), slots.begin(), slots.end());
  }

 private:
  std::vector<bool> used_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> removed_;
};

}  // namespace espalier::dpdk
