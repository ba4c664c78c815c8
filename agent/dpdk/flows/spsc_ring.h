#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>

namespace espalier::dpdk {

// A bounded, wait-free queue between one thread that pushes and one that pops.
template <typename T>
class SpscRing {
 public:
  // capacity: a power of two.
  explicit SpscRing(std::size_t capacity)
      : mask_(capacity - 1), items_(std::make_unique<T[]>(capacity)) {}

  // Returns false if the queue is full.
  bool Push(const T& item) {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) > mask_) return false;
    items_[tail & mask_] = item;
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  std::optional<T> Pop() {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return std::nullopt;
    T item = items_[head & mask_];
    head_.store(head + 1, std::memory_order_release);
    return item;
  }

 private:
  alignas(64) std::atomic<std::size_t> head_{0};
  alignas(64) std::atomic<std::size_t> tail_{0};
  const std::size_t mask_;
  const std::unique_ptr<T[]> items_;
};

}  // namespace espalier::dpdk
