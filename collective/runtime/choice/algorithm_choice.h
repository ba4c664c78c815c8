#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "collective/program/collective_spec.h"
#include "collective/runtime/choice/cost_model.h"
#include "common/base/result.h"

namespace espalier::runtime {

// The algorithms among which a group of `ranks` ranks chooses for a collective over a transport.
std::span<const std::string_view> CandidatesOf(program::CollectiveKind kind, int ranks);

struct Prediction {
  std::string_view algorithm;
  Work work;
  double seconds = 0;
};

// Chooses the algorithm with the least predicted time for a call's size (cost_model.h). Ranks with
// equal costs choose alike. Thread safety: one thread at a time.
class AlgorithmChoice {
 public:
  // A round includes a message, so its cost is raised to that of a message. A fit can give less:
  // with two ranks, rounds and messages are proportional, and a fit may attribute all to messages.
  AlgorithmChoice(const Costs& costs, int ranks, int fifo_slots, std::size_t message_bytes)
      : costs_(costs), ranks_(ranks), fifo_slots_(fifo_slots), message_bytes_(message_bytes) {
    costs_.round = std::max(costs_.round, costs_.message);
  }

  // Chooses as a communicator over TCP does.
  static AlgorithmChoice OverTcp(const Costs& costs, int ranks);

  // Predicts the time of every candidate. `bytes`: all ranks' parts together. The first call for a
  // collective makes its programs, which takes milliseconds for tens of ranks.
  Result<std::vector<Prediction>> PredictAll(program::CollectiveKind kind, std::size_t bytes);
  // The fastest candidate; of equal ones, the first in the order of CandidatesOf.
  Result<std::string_view> Choose(program::CollectiveKind kind, std::size_t bytes);

 private:
  struct Candidate {
    std::string_view algorithm;
    ProgramWork work;
  };
  Costs costs_;
  int ranks_;
  int fifo_slots_;
  std::size_t message_bytes_;
  std::map<program::CollectiveKind, std::vector<Candidate>> candidates_;
};

}  // namespace espalier::runtime
