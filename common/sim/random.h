#pragma once

#include <cstdint>

namespace espalier::sim {

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers from a seed with every compiler and
// library, which the distributions of <random> do not promise. Not for secrets.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // Below `bound` > 0. The bias, bound / 2^64, is of no matter here.
  std::uint64_t Below(std::uint64_t bound) { return Next() % bound; }
  // In [0, 1).
  double Fraction() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  bool Chance(double probability) { return Fraction() < probability; }

 private:
  std::uint64_t state_;
};

}  // namespace espalier::sim
