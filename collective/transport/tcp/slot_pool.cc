#include "collective/transport/tcp/slot_pool.h"

namespace espalier::transport {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

SlotPool::~SlotPool() {
  for (std::byte* slot : all_) source_->deallocate(slot, slot_bytes_, kAlignment);
}

std::byte* SlotPool::Take() {
  if (free_.empty()) {
    // Grow the lists first, so that an allocated slot cannot be lost and Give cannot fail.
    if (free_.capacity() == all_.size()) {
      all_.reserve(2 * all_.size() + 1);
      free_.reserve(2 * all_.size() + 1);
    }
    auto* const made = static_cast<std::byte*>(source_->allocate(slot_bytes_, kAlignment));
    all_.push_back(made);
    return made;
  }
  std::byte* slot = free_.back();
  free_.pop_back();
  return slot;
}

}  // namespace espalier::transport
