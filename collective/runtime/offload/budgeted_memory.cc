#include "collective/runtime/offload/budgeted_memory.h"

#include <new>

#include "common/base/check.h"

namespace espalier::runtime {

void BudgetedMemory::Charge(std::size_t bytes) {
  std::size_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || used > limit_ - bytes) throw std::bad_alloc();
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  if (parent_ == nullptr) return;
  try {
    parent_->Charge(bytes);
  } catch (...) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    throw;
  }
}

void BudgetedMemory::Refund(std::size_t bytes) noexcept {
  const std::size_t before = used_.fetch_sub(bytes, std::memory_order_relaxed);
  ESPALIER_CHECK(before >= bytes, "refunded={} used={}", bytes, before);
  if (parent_ != nullptr) parent_->Refund(bytes);
}

void* BudgetedMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  Charge(bytes);
  try {
    return ::operator new(bytes, std::align_val_t(alignment));
  } catch (...) {
    Refund(bytes);
    throw;
  }
}

void BudgetedMemory::do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  ::operator delete(memory, std::align_val_t(alignment));
  Refund(bytes);
}

}  // namespace espalier::runtime
