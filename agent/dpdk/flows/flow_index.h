#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/os/large_memory.h"

namespace espalier::dpdk {

// From hashes to slots: flat, open addressing, immutable once it is shared. At most half full; an
// eighth while it is small, as each slot that is not in its first bucket is a branch mispredicted.
// A hash's upper bits say where to look; its lower half is kept beside the slot, so that what the
// slot holds is looked at only where it is almost surely the right one.
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

  // For the stages of a burst: where it looks, in registers.
  struct Reader {
    const std::uint64_t* buckets;
    std::size_t mask;
    int shift;

    // Inlined always: the compiler drops calls of functions that do nothing but prefetch.
    [[gnu::always_inline]] void Prefetch(std::uint64_t hash) const {
      __builtin_prefetch(&buckets[hash >> shift]);
    }
    // The first slot whose fingerprint fits, for a prefetch of what it holds, plus 1; 0 for none.
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

  // The slot with this hash that `is_it`.
  template <typename IsIt>
  std::optional<std::uint32_t> Find(std::uint64_t hash, IsIt&& is_it) const {
    for (std::size_t at = hash >> shift_; buckets_[at] != 0; at = (at + 1) & mask_) {
      if (Fits(buckets_[at], hash) && is_it(Slot(buckets_[at]))) return Slot(buckets_[at]);
    }
    return std::nullopt;
  }

 private:
  // Buckets in 128 KiB, which a core's own cache has for them.
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
