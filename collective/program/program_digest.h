#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace espalier::program {

// SHA-256.
using ProgramDigest = std::array<std::uint8_t, 32>;

// The digest of a program as the root of a hash tree over the parts of its ranks, so that the
// holder of one part can check with few digests that the part belongs to the whole. Leaves, inner
// nodes and the root are hashed with different prefixes, so that none can stand for another. The
// last node of a level of odd length goes up unchanged.
class DigestTree {
 public:
  DigestTree() = default;  // of no ranks
  // `parts`: the digests by rank (DigestOfPart); at least one.
  explicit DigestTree(std::vector<ProgramDigest> parts);

  const ProgramDigest& root() const { return levels_.back().front(); }
  // The neighbours on the way from the part of a rank to the root, from below.
  std::vector<ProgramDigest> PathOf(std::size_t rank) const;
  // The root to which the part of one of `ranks` ranks leads; the path must have the right length.
  static ProgramDigest Climb(const ProgramDigest& part, std::size_t rank, std::size_t ranks,
                             std::span<const ProgramDigest> path);
  static std::size_t LengthOfPath(std::size_t rank, std::size_t ranks);
  bool operator==(const DigestTree&) const = default;

 private:
  std::vector<std::vector<ProgramDigest>> levels_;
};

ProgramDigest DigestOfPart(std::size_t rank, std::string_view bytes);
// `head`: what all ranks share.
ProgramDigest DigestOfWhole(std::string_view head, const ProgramDigest& root);

}  // namespace espalier::program
