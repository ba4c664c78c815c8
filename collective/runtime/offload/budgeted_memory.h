#pragma once

#include <atomic>
#include <cstddef>
#include <memory_resource>

namespace espalier::runtime {

// A memory resource with a budget: at most `limit` bytes are allocated at the same time, within the
// budget of its parent. Budgets form a tree: session, user, offload service. Memory that an
// untrusted program can make a group allocate comes from such a budget, so the program can exhaust
// only its own. Beyond a limit it throws std::bad_alloc, as if the machine had no more memory, and
// Communicator turns that into an error of the call.
// Thread safety: any thread. The parent must outlive it.
class BudgetedMemory : public std::pmr::memory_resource {
 public:
  explicit BudgetedMemory(std::size_t limit, BudgetedMemory* parent = nullptr)
      : limit_(limit), parent_(parent) {}

  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }

  // Count memory that is allocated elsewhere. Charge throws std::bad_alloc without effect if the
  // budget is exceeded. Every charge must be refunded.
  void Charge(std::size_t bytes);
  void Refund(std::size_t bytes) noexcept;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  const std::size_t limit_;
  BudgetedMemory* const parent_;
  std::atomic<std::size_t> used_{0};
};

// Charges memory to a budget and refunds it at the end of its scope.
class MemoryCharge {
 public:
  MemoryCharge(BudgetedMemory& memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {
    memory.Charge(bytes);
  }
  MemoryCharge(const MemoryCharge&) = delete;
  MemoryCharge& operator=(const MemoryCharge&) = delete;
  ~MemoryCharge() { memory_.Refund(bytes_); }

 private:
  BudgetedMemory& memory_;
  const std::size_t bytes_;
};

}  // namespace espalier::runtime
