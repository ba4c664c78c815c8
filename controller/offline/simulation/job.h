#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/fabric/topology.h"

namespace espalier::offline {

// Flows that send together, round by round. A round begins when all flows of the one before have
// ended. A ring of data parallelism (a stage of floodns) is one, and so are a pipeline, a tree and
// an all-to-all.
struct Exchange {
  struct Flow {
    fabric::NodeId source;
    fabric::NodeId destination;
  };
  std::vector<Flow> flows;
  std::int64_t round_bytes = 0;  // that each flow sends in one round
  int rounds = 1;
};

// Exchanges that run at once, after a computation.
struct Phase {
  std::string name;
  std::int64_t compute_ns = 0;
  std::vector<Exchange> exchanges;
};

// A training job, which repeats its phases in every epoch (Routing for Large ML Models, section
// 5.1). Its connections stay open from its first phase to its last.
struct Job {
  std::string id;
  std::string model;
  // When the first phase begins to send; the computation before it is not simulated.
  std::int64_t start_ns = 0;
  int epochs = 11;
  std::vector<Phase> phases;
};

// The exchanges of NICs that `bytes` (> 0) describes for each, in the order of the NICs. Chunks of
// large collectives are in flight on all edges at once, so that all flows of a chain or tree send
// together.
// Each sends to the next, and the last to the first; together they reduce `bytes` in 2(R-1) rounds.
Exchange MakeRing(const std::vector<fabric::NodeId>& nics, std::int64_t bytes);
// Each sends `bytes` to the next, as the stages of a pipeline do.
Exchange MakeChain(const std::vector<fabric::NodeId>& nics, std::int64_t bytes);
// Each holds `bytes` and sends an equal part of them to every other.
Exchange MakeAllToAll(const std::vector<fabric::NodeId>& nics, std::int64_t bytes);
// Each but the first sends `bytes` to its parent in a binary tree, whose root is the first.
Exchange MakeReduceTree(const std::vector<fabric::NodeId>& nics, std::int64_t bytes);
// The same edges, from the root to the leaves.
Exchange MakeBroadcastTree(const std::vector<fabric::NodeId>& nics, std::int64_t bytes);

}  // namespace espalier::offline
