#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/forest/model/tree_schedule.h"
#include "collective/program/program.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::algorithms {

// The way that all messages of a connection (sending rank, receiving rank, channel) are to take
// through the topology.
struct ConnectionPath {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t channel = 0;
  std::vector<fabric::NodeId> nodes;  // in the direction of the data, both ranks included
  bool operator==(const ConnectionPath&) const = default;
};

// Trees of a forest that are the same: who is their root, and which connections their edges are.
struct TreeConnections {
  std::size_t phase = 0;  // of the plan
  bool to_root = false;   // data goes up to the root and is added up; else from it
  std::int32_t root = 0;
  std::int64_t count = 0;                 // trees
  std::int32_t height = 0;                // edges on the longest way to the root
  std::vector<std::int32_t> connections;  // into ForestProgram::paths, ascending
  bool operator==(const TreeConnections&) const = default;
};

struct ForestProgram {
  program::Program program;
  std::vector<ConnectionPath> paths;   // by (from, to, channel); of every connection
  std::vector<TreeConnections> trees;  // by phase, then as the forest has them
  // Trees that a chunk stands for: a chunk is a part 1 / (weight x k / this) of a rank's share.
  std::int64_t trees_per_chunk = 1;
};

// The program of a forest that its verifier has passed. Every tree carries an equal part of its
// root's share: allgather and broadcast copy down the trees, reduce_scatter and reduce add up on
// the way to the roots, allreduce does both, so that each result is reduced at one rank and is the
// same everywhere. Trees that the forest counts together move together. Edges between two ranks
// that take different paths are on different channels, and an edge that the forest splits over
// paths moves in as many parts: a source port for each connection realises the schedule.
// Near-linear in trees x ranks.
// Errors: kInvalidArgument for an allgather of unequal shares (its calls know one size only), for
// more than 32 paths between two ranks; those of ProgramBuilder and Lower; kInternal where the
// forest has edges without routes.
Result<ForestProgram> MakeForestProgram(const std::string& name, const forest::TreeSchedule& plan,
                                        int fifo_slots = 2);

}  // namespace espalier::algorithms
