#pragma once

#include <cstddef>
#include <vector>

namespace espalier {

// Asks the system for large pages (2 MiB) in this part of the memory, where it has not been
// touched yet: arrays of many megabytes that are filled once cost mostly page faults otherwise.
// A hint, without effect where there are none. Any thread.
void AdviseLargePages(void* begin, std::size_t bytes);

// reserve(), on large pages.
template <typename T>
void ReserveLarge(std::vector<T>& vector, std::size_t count) {
  vector.reserve(count);
  AdviseLargePages(vector.data(), vector.capacity() * sizeof(T));
}

// Memory on large pages from its first byte on, where it is large and there are any.
// Any thread; FreeLarge wants the same numbers again.
void* AllocateLarge(std::size_t bytes, std::size_t alignment);
void FreeLarge(void* memory, std::size_t bytes, std::size_t alignment);

// The allocator for it: arrays of a megabyte and more that are looked up all over would miss the
// TLB with every look-up on small pages.
template <typename T>
struct LargePages {
  using value_type = T;

  LargePages() = default;
  template <typename Other>
  explicit LargePages(const LargePages<Other>& /*other*/) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(AllocateLarge(count * sizeof(T), alignof(T)));
  }
  void deallocate(T* memory, std::size_t count) {
    FreeLarge(memory, count * sizeof(T), alignof(T));
  }
  bool operator==(const LargePages& /*other*/) const { return true; }
};

}  // namespace espalier
