#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace espalier {

// The seeds that a randomised test tries: `count` of them from `first` on, the same at every run.
// Where the environment has ESPALIER_SEED it is that one alone: tests/run --soak tries new seeds
// that way, and a person repeats one that failed.
inline std::vector<std::uint64_t> SeedsToTry(std::uint64_t first, std::uint64_t count) {
  const char* const only = std::getenv("ESPALIER_SEED");
  if (only != nullptr) return {std::stoull(only)};
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = first; seed < first + count; ++seed) seeds.push_back(seed);
  return seeds;
}

}  // namespace espalier
