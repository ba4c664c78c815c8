#include "collective/transport/slot_pool.h"

#include <new>

namespace espalier::transport {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

void SlotPool::Free::operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }

std::byte* SlotPool::Take() {
  if (free_.empty()) {
    auto* made = static_cast<std::byte*>(::operator new(slot_bytes_, kAlignment));
    all_.emplace_back(made);
    return made;
  }
  std::byte* slot = free_.back();
  free_.pop_back();
  return slot;
}

}  // namespace espalier::transport
