#pragma once

#include <cstddef>
#include <vector>

namespace espalier {

// Asks the system for large pages (2 MiB) in a range of memory that is not touched yet. Otherwise
// page faults are most of the cost of filling an array of many megabytes. Only a hint. Any thread.
void AdviseLargePages(void* begin, std::size_t bytes);

// Reserves a vector's capacity on large pages.
template <typename T>
void ReserveLarge(std::vector<T>& vector, std::size_t count) {
  vector.reserve(count);
  AdviseLargePages(vector.data(), vector.capacity() * sizeof(T));
}

// Allocates memory, on large pages from its first byte on if it is large and the system has them.
// Call FreeLarge with the same numbers. Any thread.
void* AllocateLarge(std::size_t bytes, std::size_t alignment);
void FreeLarge(void* memory, std::size_t bytes, std::size_t alignment);

// An allocator with AllocateLarge, for arrays of a megabyte or more with random access: on small
// pages each access would miss the TLB.
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
