#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace espalier::shim {

// The part of an entry that a ChainTable needs.
template <typename T>
struct ChainLink {
  std::uint64_t key = 0;
  std::atomic<T*> next{nullptr};
};

// A hash table whose look-ups take no lock and write nothing, also while entries come and go.
//
// One thread at a time inserts and erases. Threads that were about to find an entry may still read
// it after it was erased. So it must stay unchanged, must not be inserted again, and must live
// until no such look-up can be left.
// Complexity: look-up O(1) for up to some ten thousand entries.
template <typename T, ChainLink<T> T::*kLink>
class ChainTable {
 public:
  T* Find(std::uint64_t key) const {
    T* at = Bucket(key).load(std::memory_order_acquire);
    while (at != nullptr && (at->*kLink).key != key) {
      at = (at->*kLink).next.load(std::memory_order_acquire);
    }
    return at;
  }

  void Insert(T& entry, std::uint64_t key) {
    std::atomic<T*>& bucket = Bucket(key);
    (entry.*kLink).key = key;
    (entry.*kLink).next.store(bucket.load(std::memory_order_relaxed), std::memory_order_relaxed);
    bucket.store(&entry, std::memory_order_release);
  }

  // Ignores an entry that is not in the table.
  void Erase(T& entry) {
    std::atomic<T*>* at = &Bucket((entry.*kLink).key);
    while (T* const here = at->load(std::memory_order_relaxed)) {
      std::atomic<T*>& next = (here->*kLink).next;
      if (here == &entry) {
        at->store(next.load(std::memory_order_relaxed), std::memory_order_release);
        return;
      }
      at = &next;
    }
  }

 private:
  static constexpr int kIndexBits = 13;

  static std::size_t Index(std::uint64_t key) {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15) >> (64 - kIndexBits));
  }
  std::atomic<T*>& Bucket(std::uint64_t key) { return buckets_[Index(key)]; }
  const std::atomic<T*>& Bucket(std::uint64_t key) const { return buckets_[Index(key)]; }

  std::array<std::atomic<T*>, std::size_t{1} << kIndexBits> buckets_{};
};

}  // namespace espalier::shim
