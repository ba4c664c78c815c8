#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace espalier::dpdk {

// From hashes to slots: flat, open addressing, at most half full, immutable once it is shared.
// The upper half of a hash is kept beside the slot, so that what the slot holds is looked at only
// where it is almost surely the right one.
class FlowIndex {
 public:
  // Room for `size` entries.
  explicit FlowIndex(std::size_t size) : buckets_(std::size_t{4}) {
    while (buckets_.size() < 2 * size) buckets_.resize(2 * buckets_.size());
    mask_ = buckets_.size() - 1;
  }

  void Add(std::uint64_t hash, std::uint32_t slot) {
    std::size_t at = hash & mask_;
    while (buckets_[at] != 0) at = (at + 1) & mask_;
    buckets_[at] = (hash & kFingerprint) | (slot + 1);
  }

  void Prefetch(std::uint64_t hash) const { __builtin_prefetch(&buckets_[hash & mask_]); }

  // The first slot whose fingerprint fits, for a prefetch of what it holds, or kNoSlot.
  static constexpr std::uint32_t kNoSlot = UINT32_MAX;
  std::uint32_t Guess(std::uint64_t hash) const {
    for (std::size_t at = hash & mask_; buckets_[at] != 0; at = (at + 1) & mask_) {
      if (((buckets_[at] ^ hash) & kFingerprint) == 0) return Slot(at);
    }
    return kNoSlot;
  }

  // The slot with this hash that `is_it`.
  template <typename IsIt>
  std::optional<std::uint32_t> Find(std::uint64_t hash, IsIt&& is_it) const {
    for (std::size_t at = hash & mask_; buckets_[at] != 0; at = (at + 1) & mask_) {
      if (((buckets_[at] ^ hash) & kFingerprint) == 0 && is_it(Slot(at))) return Slot(at);
    }
    return std::nullopt;
  }

 private:
  static constexpr std::uint64_t kFingerprint = 0xFFFF'FFFF'0000'0000;
  std::uint32_t Slot(std::size_t at) const { return static_cast<std::uint32_t>(buckets_[at]) - 1; }

  std::vector<std::uint64_t> buckets_;  // fingerprint, slot + 1; 0: empty
  std::size_t mask_ = 0;
};

}  // namespace espalier::dpdk
