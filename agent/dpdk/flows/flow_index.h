#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/os/large_memory.h"

namespace espalier::dpdk {

// Maps hashes of flow keys to slots: a hash table with open addressing, immutable once it is
// shared.
//
// Problem: the look-up of a random flow is a chain of cache misses: bucket, then flow line.
// Idea: a bucket is 8 bytes, the slot plus 1 and the lower half of the hash as a fingerprint. The
// upper bits of the hash choose the first bucket; collisions go to the next one (linear probing).
// The fingerprint is nearly always right, so Guess returns a slot without reading the flow, and the
// caller can prefetch the flow's line. Prefetch, Guess and the comparison of the key are separate
// steps, so that a burst overlaps the misses of its frames.
// Invariant: at most half of the buckets are full. While the index is small at most an eighth are,
// as each flow outside its first bucket costs a mispredicted branch.
// Cost: O(1) expected for each look-up, one cache line in most cases; 16 to 128 bytes a flow.
// Measured by tests/bench/dpdk_packet_bench.cc.
class FlowIndex {
 public:
  // Room for `size` entries.
  explicit FlowIndex(std::size_t size)
      : buckets_(BucketsFor(size)),
        mask_(buckets_.size() - 1),
        shift_(64 - std::countr_zero(buckets_.size())) {}

  void Add(std::uint64_t hash, std::uint32_t slot) {
    std::size_t at = hash >> shift_;
    while (buckets_[at] != 0) at = (at + 1) & mask_;
    buckets_[at] = std::uint64_t{slot + 1} << 32 | (hash & 0xFFFF'FFFF);
  }

  std::size_t bytes() const { return buckets_.size() * sizeof(std::uint64_t); }

  // A view for the stages of a burst, small enough for registers.
  struct Reader {
    const std::uint64_t* buckets;
    std::size_t mask;
    int shift;

    // Always inlined, as the compiler drops calls of functions that only prefetch.
    [[gnu::always_inline]] void Prefetch(std::uint64_t hash) const {
      __builtin_prefetch(&buckets[hash >> shift]);
    }
    // Returns the first slot whose fingerprint fits, plus 1; 0: none. Its key must be compared.
    [[gnu::always_inline]] std::uint32_t Guess(std::uint64_t hash) const {
      std::uint64_t bucket = buckets[hash >> shift];
      if (!Fits(bucket, hash)) [[unlikely]] {
        std::size_t at = hash >> shift;
        while (bucket != 0 && !Fits(bucket, hash)) bucket = buckets[at = (at + 1) & mask];
      }
      return static_cast<std::uint32_t>(bucket >> 32);
    }
  };
  Reader reader() const { return {buckets_.data(), mask_, shift_}; }

  // Returns the slot with this hash for which `is_it` holds.
  template <typename IsIt>
  std::optional<std::uint32_t> Find(std::uint64_t hash, IsIt&& is_it) const {
    for (std::size_t at = hash >> shift_; buckets_[at] != 0; at = (at + 1) & mask_) {
      if (Fits(buckets_[at], hash) && is_it(Slot(buckets_[at]))) return Slot(buckets_[at]);
    }
    return std::nullopt;
  }

 private:
  // Number of buckets in 128 KiB, which fit a core's own cache.
  static constexpr std::size_t kSmall = std::size_t{1} << 14;
  static std::size_t BucketsFor(std::size_t size) {
    const std::size_t least = std::bit_ceil(std::max<std::size_t>(2 * size, 4));
    return std::max(least, std::min(4 * least, kSmall));
  }
  static bool Fits(std::uint64_t bucket, std::uint64_t hash) {
    return static_cast<std::uint32_t>(bucket) == static_cast<std::uint32_t>(hash);
  }
  static std::uint32_t Slot(std::uint64_t bucket) {
    return static_cast<std::uint32_t>(bucket >> 32) - 1;
  }

  std::vector<std::uint64_t, LargePages<std::uint64_t>>
      buckets_;  // slot + 1, fingerprint; 0: empty
  std::size_t mask_;
  int shift_;
};

}  // namespace espalier::dpdk
