#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/program/collective_spec.h"
#include "collective/runtime/choice/cost_model.h"
#include "common/base/result.h"

namespace espalier::runtime {

// How the ranks of a group are spread over hosts, if they share memory within hosts.
struct HostLayout {
  // Ranks 0, 1, ... share the first host, and so on. 0: hosts do not matter, or differ.
  int ranks_per_host = 0;
  Costs within;  // in shared memory
};

// The algorithms among which a group of `ranks` ranks chooses for a collective over a transport;
// with `ranks_per_host`, also hierarchical ones.
std::vector<std::string_view> CandidatesOf(program::CollectiveKind kind, int ranks,
                                           int ranks_per_host = 0);

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
  AlgorithmChoice(const Costs& costs, int ranks, int fifo_slots, std::size_t message_bytes,
                  const HostLayout& hosts = {})
      : costs_(costs),
        hosts_(hosts),
        ranks_(ranks),
        fifo_slots_(fifo_slots),
        message_bytes_(message_bytes) {
    costs_.round = std::max(costs_.round, costs_.message);
  }

  // Chooses as a communicator over TCP does.
  static AlgorithmChoice OverTcp(const Costs& costs, int ranks);

  // Predicts the time of every candidate. `bytes`: all ranks' parts together. The first call for a
  // collective makes its programs, which takes milliseconds for tens of ranks.
  Result<std::vector<Prediction>> PredictAll(program::CollectiveKind kind, std::size_t bytes);
  // The options with which the group makes a candidate, apart from what a call decides.
  algorithms::AlgorithmOptions OptionsOf() const;
  int ranks_per_host() const { return hosts_.ranks_per_host; }
  // The fastest candidate; of equal ones, the first in the order of CandidatesOf.
  Result<std::string_view> Choose(program::CollectiveKind kind, std::size_t bytes);

 private:
  struct Candidate {
    std::string_view algorithm;
    // Without hosts, all is between them.
    HostsWork work;
  };
  Costs costs_;  // with hosts, between them
  HostLayout hosts_;
  int ranks_;
  int fifo_slots_;
  std::size_t message_bytes_;
  std::map<program::CollectiveKind, std::vector<Candidate>> candidates_;
};

}  // namespace espalier::runtime
