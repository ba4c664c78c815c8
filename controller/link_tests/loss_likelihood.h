#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace espalier::controller {

// Probe trains by what they have crossed and shown. The unit is the train and not the packet, as
// losses come in bursts: a train is bad if at least one packet that counts was lost.
class TrainCounts {
 public:
  static constexpr std::size_t kMostPackets = 16;  // of a train

  enum Crossed : std::uint8_t { kFirst, kSecond, kBoth };
  void Add(Crossed crossed, std::uint8_t counted, bool is_bad) {
    ++counts_[crossed][counted][is_bad ? 1 : 0];
  }
  double Of(std::size_t crossed, std::size_t counted, std::size_t bad) const {
    return static_cast<double>(counts_[crossed][counted][bad]);
  }

 private:
  std::array<std::array<std::array<std::uint32_t, 2>, kMostPackets + 1>, 3> counts_{};
};

// The logarithm of how much better "these links lose a part p of their packets" explains trains
// than "every path loses the part q" does (Wald's sequential probability ratio test, Annals of
// Mathematical Statistics 16, 1945).
//
// Of c packets that count, at least one is lost with probability 1 - (1-p)^c. A path that crosses
// two lossy links loses 1 - (1-p1)(1-p2). The best of the parts in kParts is taken for each link.
// Pure. Complexity: O(1), about 200 terms for one link and 4,000 for two.
class LossLikelihood {
 public:
  static constexpr std::array<double, 6> kParts = {0.01, 0.02, 0.05, 0.1, 0.3, 0.7};

  // Requires 0 < q < kParts.front().
  explicit LossLikelihood(double q);

  // That the first link loses packets. Trains over the second one alone do not matter.
  double OfOne(const TrainCounts& trains) const;
  // The same for this one of kParts.
  double OfOne(const TrainCounts& trains, std::size_t part) const;
  // That both links lose packets.
  double OfTwo(const TrainCounts& trains) const;

 private:
  // A logarithm for good and one for bad trains, by the number of packets that count.
  using Terms = std::array<std::array<double, 2>, TrainCounts::kMostPackets + 1>;
  Terms TermsOf(double p) const;
  static double Sum(const TrainCounts& trains, TrainCounts::Crossed crossed, const Terms& terms);

  double q_;
  std::array<Terms, kParts.size()> one_;
  std::array<std::array<Terms, kParts.size()>, kParts.size()> both_;
};

}  // namespace espalier::controller
