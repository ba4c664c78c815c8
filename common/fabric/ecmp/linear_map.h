#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/paths.h"

namespace espalier::fabric {

// One port and the path that a probe has seen it take.
struct PortSample {
  std::uint16_t port = 0;  // 0xC000-0xFFFF
  PathIndex path;
};

// The map from source ports to paths of one key, if all switches on the path hash linearly (CRC,
// XOR, Toeplitz with any unknown seed) onto groups whose sizes are powers of two.
//
// Idea: such a hash satisfies H(x ^ d) = H(x) ^ L(d) with a linear L over GF(2) (the property that
// RePaC, USENIX ATC 2021, uses). Two ports take the same path if and only if their XOR is in the
// kernel K of L, so each coset of K among the 2^14 ports has one path. The differences of samples
// with equal paths span K (Gaussian elimination), and one sample per coset gives its path. The
// method assumes no order of a switch's members and no number of switches that choose.
//
// Pitfalls: the property does not hold for group sizes that are not powers of two, for resilient
// hashing, or for the hashes of Linux and Jenkins. These contradict it after a few more samples
// than ports have bits, and Recognise returns kNotLinear.
// Thread safety: immutable.
class LinearPortMap {
 public:
  enum class Verdict {
    kLinear,
    kNotLinear,  // two samples contradict every linear map; more samples will not change that
    kUndecided,  // no contradiction, but too few samples to tell
  };
  struct Recognition;

  // Decides whether the samples of one key, in any order, come from a linear map onto at most
  // `path_count` (at least 2) paths. Returns kLinear only if chance would produce such samples with
  // a probability below 2^-32: about 50 random ports for 2 paths, 150 for 64. A port that was seen
  // on two paths makes it kNotLinear. Complexity: O(samples); 200 samples over 32 paths take 8 us
  // (BM_RecogniseLinearHashFrom200Probes).
  static Recognition Recognise(std::span<const PortSample> samples, std::size_t path_count);

  // The path of a port; none if no sample fell into its coset.
  std::optional<PathIndex> Predict(std::uint16_t port) const;
  // Whether all ports take one path.
  bool IsConstant() const { return kernel_.Dimension() == kPortBits; }
  // One port of each coset without a sample. Once they are probed, Predict knows all ports.
  std::vector<std::uint16_t> PortsToProbe() const;

  // The map of another key of the same pair of switches and protocol (other hosts, destination
  // port or queue pair). Its hash differs by a constant, which one probe of that key determines.
  // None if the probed path is not in this map.
  std::optional<LinearPortMap> ForKeyOf(PortSample probe) const;

 private:
  static constexpr int kPortBits = 14;

  // A subspace of the 14-bit vectors, as a basis in reduced echelon form.
  class Subspace {
   public:
    // Returns false if the vector was in the subspace already.
    bool Add(std::uint16_t vector);
    int Dimension() const { return dimension_; }
    // Cosets are numbered from 0 to 2^(14 - dimension) - 1; the number is linear in the vector.
    std::uint16_t CosetOf(std::uint16_t vector) const;
    // The vector of a coset that is zero at every pivot.
    std::uint16_t Representative(std::uint16_t coset) const;

   private:
    std::uint16_t Reduce(std::uint16_t vector) const;

    std::array<std::uint16_t, kPortBits> rows_{};  // by highest bit; 0 if there is none
    int dimension_ = 0;
  };

  Subspace kernel_;
  std::vector<std::optional<PathIndex>> path_of_coset_;
  std::uint16_t offset_ = 0;  // coset by which this key's hash differs from the sampled one's
};

struct LinearPortMap::Recognition {
  Verdict verdict = Verdict::kUndecided;
  std::optional<LinearPortMap> map;  // if kLinear
};

}  // namespace espalier::fabric
