#pragma once

#include <cstdint>

namespace espalier {

// The SplitMix64 generator (Steele, Lea, Flood 2014), for simulation and hashing. Not for secrets.

// Its finaliser, a bijection in which each input bit flips about half of the output bits. Zero
// stays zero.
constexpr std::uint64_t Mix64(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xBF58'476D'1CE4'E5B9;
  value = (value ^ (value >> 27U)) * 0x94D0'49BB'1331'11EB;
  return value ^ (value >> 31U);
}

// Generates the same numbers from a seed with every compiler and library, which the distributions
// of <random> do not guarantee.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    state_ += 0x9E37'79B9'7F4A'7C15;
    return Mix64(state_);
  }
  // A number from 0 to bound - 1; bound > 0. The bias, bound / 2^64, is negligible.
  std::uint64_t Below(std::uint64_t bound) { return Next() % bound; }
  // A number in [0, 1).
  double Fraction() { return static_cast<double>(Next() >> 11U) * 0x1.0p-53; }
  bool Chance(double probability) { return Fraction() < probability; }

 private:
  std::uint64_t state_;
};

}  // namespace espalier
