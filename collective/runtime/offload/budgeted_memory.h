#pragma once

#include <atomic>
#include <cstddef>
#include <memory_resource>

namespace espalier::runtime {

// Memory that comes to an end: at most `limit` bytes are out at the same time, and as much of them
// as its parent allows (a session's budget is a part of its user's, and a user's of the engine's).
// What a stranger can make a group allocate comes out of one, so that he runs into his own limit
// and nobody else does. Beyond a limit std::bad_alloc is thrown, as if the machine had no more
// memory; Communicator turns that into an error of the call.
// Thread safety: any thread. The parent must outlive it.
class BudgetedMemory : public std::pmr::memory_resource {
 public:
  explicit BudgetedMemory(std::size_t limit, BudgetedMemory* parent = nullptr)
      : limit_(limit), parent_(parent) {}

  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }

  // Counts memory that is allocated elsewhere. Charge throws std::bad_alloc where there is no room,
  // and has then changed nothing; what was charged is to be refunded.
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

// A charge that is refunded at the end of its scope.
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
