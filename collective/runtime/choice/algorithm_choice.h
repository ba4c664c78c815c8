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

// Algorithms that a collective may be done by over a transport, for so many ranks.
std::span<const std::string_view> CandidatesOf(program::CollectiveKind kind, int ranks);

struct Prediction {
  std::string_view algorithm;
  Work work;
  double seconds = 0;
};

// Which algorithm is best for a call of a size, by the model of costs. Ranks with the same costs
// choose the same.
// Thread safety: one thread at a time.
class AlgorithmChoice {
 public:
  // A round waits for a message: it is taken to cost no less than one, whatever a fit says (with
  // two ranks rounds and messages go together, and all may be put down to the messages).
  AlgorithmChoice(const Costs& costs, int ranks, int fifo_slots, std::size_t message_bytes)
      : costs_(costs), ranks_(ranks), fifo_slots_(fifo_slots), message_bytes_(message_bytes) {
    costs_.round = std::max(costs_.round, costs_.message);
  }

  // As a communicator over TCP chooses.
  static AlgorithmChoice OverTcp(const Costs& costs, int ranks);

  // Of every candidate; bytes of all ranks' shares together. The first call for a collective makes
  // its programs: milliseconds for tens of ranks.
  Result<std::vector<Prediction>> PredictAll(program::CollectiveKind kind, std::size_t bytes);
  // The fastest; the first of several in the order of CandidatesOf.
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
