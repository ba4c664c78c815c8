#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace espalier::controller {

// Numbers of probe trains, by how many of their packets count and whether they are bad. The unit is
// the train and not the packet, as losses come in bursts: a train is bad if at least one packet
// that counts was lost.
class TrainCounts {
 public:
  static constexpr std::size_t kMostPackets = 16;  // of a train

  void Add(std::uint8_t counted, bool is_bad) { ++counts_[counted][is_bad ? 1 : 0]; }
  TrainCounts& operator+=(const TrainCounts& other);
  TrainCounts& operator-=(const TrainCounts& other);  // `other` must be a part of these
  double Of(std::size_t counted, std::size_t bad) const {
    return static_cast<double>(counts_[counted][bad]);
  }
  std::uint32_t trains() const;
  std::uint32_t bad() const;

 private:
  std::array<std::array<std::uint32_t, 2>, kMostPackets + 1> counts_{};
};

// The logarithm of how much better "these links lose a part p of their packets" explains trains
// than "every path loses the part q" does (Wald's sequential probability ratio test, Annals of
// Mathematical Statistics 16, 1945).
//
// Of c packets that count, at least one is lost with probability 1 - (1-p)^c. A path that crosses
// two lossy links loses 1 - (1-p1)(1-p2). The best of the parts in kParts is taken for each link.
// Pure. Complexity: O(1), about 200 terms for one link and 1,600 for two.
class LossLikelihood {
 public:
  static constexpr std::array<double, 6> kParts = {0.01, 0.02, 0.05, 0.1, 0.3, 0.7};

  // Requires 0 < q < kParts.front().
  explicit LossLikelihood(double q);

  // That a link with these trains loses packets.
  double OfOne(const TrainCounts& trains) const;
  // The same for this one of kParts.
  double OfOne(const TrainCounts& trains, std::size_t part) const;
  // That two links lose packets: by the trains over only one of them, and over both.
  double OfTwo(const TrainCounts& first, const TrainCounts& second, const TrainCounts& both) const;

 private:
  // A logarithm for good and one for bad trains, by the number of packets that count.
  using Terms = std::array<std::array<double, 2>, TrainCounts::kMostPackets + 1>;
  Terms TermsOf(double p) const;
  static double Sum(const TrainCounts& trains, const Terms& terms);

  double q_;
  std::array<Terms, kParts.size()> one_;
  std::array<std::array<Terms, kParts.size()>, kParts.size()> both_;
};

}  // namespace espalier::controller
