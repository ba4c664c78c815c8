#pragma once

#include <array>
#include <cstddef>

#include "controller/discovery/probe_evidence.h"

namespace espalier::discovery {

// How many answers a second each switch may be asked for, summed over all hosts. Switches limit
// their ICMP answers, and a switch that drops them looks silent.
//
// The pace starts low. It grows by half after a batch of probes of which as many are answered as of
// the best batch, and halves if a fifth less is. It is kept by TTL, since switches of one tier are
// mostly alike, and a switch that never answers slows nothing down.
// Deterministic. Thread safety: one thread.
class AnswerPace {
 public:
  static constexpr double kFirst = 50;
  static constexpr double kLeast = 5;
  static constexpr double kMost = 1'000;
  // A smaller batch shows nothing.
  static constexpr std::size_t kLeastProbes = 20;

  double PerSecondAndSwitch(std::size_t hop) const { return hops_[hop].per_second; }
  void HandleBatch(std::size_t hop, std::size_t probes, std::size_t answers);

 private:
  struct Hop {
    double per_second = kFirst;
    double best_share = 0;  // of answers
  };
  std::array<Hop, kMostHops> hops_{};
};

}  // namespace espalier::discovery
