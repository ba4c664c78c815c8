#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/fabric/topology.h"

namespace espalier::offline {

// A data-parallel group: NICs in ring order, each sending to the next (a stage of floodns).
struct Ring {
  struct Flow {
    fabric::NodeId source;
    fabric::NodeId destination;
  };
  std::vector<Flow> flows;
  std::int64_t round_bytes = 0;  // that each flow sends in one round

  // Rounds of one ring all-reduce: reduce-scatter, then all-gather.
  int Rounds() const { return 2 * (static_cast<int>(flows.size()) - 1); }
};

// A training job: in every epoch it computes, then runs an all-reduce in all its rings at once
// (Routing for Large ML Models, section 5.1).
struct Job {
  std::string id;
  std::string model;
  // The start of the first all-reduce; the computation before it is not simulated.
  std::int64_t start_ns = 0;
  std::int64_t compute_ns = 0;
  int epochs = 11;
  std::vector<Ring> rings;
};

}  // namespace espalier::offline
