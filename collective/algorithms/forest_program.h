#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/forest/model/tree_schedule.h"
#include "collective/program/program.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::algorithms {

// The path that all messages of a connection (sending rank, receiving rank, channel) take through
// the topology.
struct ConnectionPath {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t channel = 0;
  std::vector<fabric::NodeId> nodes;  // in the direction of the data, both ranks included
  bool operator==(const ConnectionPath&) const = default;
};

// Identical trees of a forest: their root and the connections of their edges.
struct TreeConnections {
  std::size_t phase = 0;  // of the tree schedule
  bool to_root = false;   // data is reduced towards the root; else it is sent down from it
  std::int32_t root = 0;
  std::int64_t count = 0;                 // number of trees
  std::int32_t height = 0;                // edges on the longest path to the root
  std::vector<std::int32_t> connections;  // into ForestProgram::paths, ascending
  bool operator==(const TreeConnections&) const = default;
};

struct ForestProgram {
  program::Program program;
  std::vector<ConnectionPath> paths;   // of every connection, by (from, to, channel)
  std::vector<TreeConnections> trees;  // by phase, then in the forest's order
  // The trees that a chunk represents: a chunk is the part 1 / (weight x k / trees_per_chunk) of a
  // rank's share.
  std::int64_t trees_per_chunk = 1;
};

// Builds the program of a tree schedule that its verifier has accepted. Every tree carries an equal
// part of its root's share. Allgather and broadcast copy down the trees, reduce_scatter and reduce
// add up on the path to the roots, and allreduce does both, so that each result is reduced at one
// rank and is identical everywhere. Trees that the forest counts together move together. Edges
// between two ranks that take different paths use different channels, and an edge that the forest
// splits over several paths moves in as many parts. So one source port per connection realises the
// schedule. The same path in the other direction has the same channel, so that a transport may use
// one connection for both. Near-linear in trees x ranks.
// Errors: kInvalidArgument for an allgather of unequal shares (its calls have a single size) and
// for more than 32 paths between two ranks, in either direction; those of ProgramBuilder and Lower;
// kInternal if the forest has edges without routes.
Result<ForestProgram> MakeForestProgram(const std::string& name,
                                        const forest::TreeSchedule& schedule, int fifo_slots = 2);

}  // namespace espalier::algorithms
