#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/fabric/ecmp/path_map.h"

namespace espalier::fabric {

// A set of source ports: a short list while it is small, which nearly all are, and else a bit for
// each of the 65,536 ports (8 KiB), so that the cost of a call does not grow with the set.
// Complexity: O(1) (at most kMostListed comparisons). Thread safety: one thread.
class PortSet {
 public:
  // False if the port was in the set.
  bool Insert(std::uint16_t port) {
    if (Contains(port)) return false;
    ++size_;
    if (!bits_ && list_.size() < kMostListed) {
      list_.push_back(port);
      return true;
    }
    if (!bits_) {
      bits_ = std::make_unique<Bits>();
      for (const std::uint16_t listed : list_) WordOf(listed) |= BitOf(listed);
      list_ = {};
    }
    WordOf(port) |= BitOf(port);
    return true;
  }
  void Erase(std::uint16_t port) {
    if (!Contains(port)) return;
    --size_;
    if (bits_) {
      WordOf(port) &= ~BitOf(port);
    } else {
      std::erase(list_, port);
    }
  }
  bool Contains(std::uint16_t port) const {
    if (bits_) return ((*bits_)[port / 64] & BitOf(port)) != 0;
    return std::find(list_.begin(), list_.end(), port) != list_.end();
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Ports kFirstRocePort + 64 n and the 63 after it, the lowest in the lowest bit. n <
  // kRocePortCount / 64.
  std::uint64_t RoceWord(std::size_t n) const {
    if (bits_) return (*bits_)[kFirstRocePort / 64 + n];
    std::uint64_t word = 0;
    for (const std::uint16_t port : list_) {
      if (port / 64U == kFirstRocePort / 64 + n) word |= BitOf(port);
    }
    return word;
  }

 private:
  static constexpr std::size_t kMostListed = 16;
  using Bits = std::array<std::uint64_t, 65'536 / 64>;

  static std::uint64_t BitOf(std::uint16_t port) { return std::uint64_t{1} << (port % 64U); }
  std::uint64_t& WordOf(std::uint16_t port) { return (*bits_)[port / 64]; }

  std::vector<std::uint16_t> list_;  // unless there are bits
  std::unique_ptr<Bits> bits_;
  std::size_t size_ = 0;
};

}  // namespace espalier::fabric
