#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collective/program/builder.h"
#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::algorithms {

// What the algorithms can be told; each looks only at what it names in its `takes`.
struct AlgorithmOptions {
  int ranks = 2;
  int root = 0;
  // Most members of a group of bcube (B).
  int base = 2;
  // Ranks of one node: 0, 1, ... are the first node's. 0: there is one node.
  int ranks_per_node = 0;
  // Pieces that a pipelined algorithm cuts a rank's share into. 0: as it sees fit.
  int pieces = 0;
  // Steps of pairwise_exchange (C). 0: lg of the ranks.
  int steps = 0;
  // Of reduce_scatter: chunks that each rank gets. Empty: one each.
  std::vector<int> counts;
  // Equal parts of everything that move in parallel on channels of their own.
  int instances = 1;
  // Where the caller's buffers may be. None: all that the algorithm can do without extra copies.
  std::optional<program::BufferPlacement> placement;
  // Messages that a connection is taken to hold.
  int fifo_slots = 2;
};

// An algorithm, in the words of 002 (Gloo) and 001 (GC3, section 7). S is the size of the data,
// P the number of ranks.
struct Algorithm {
  std::string_view name;
  std::string_view summary;
  std::string_view takes;  // which options beyond ranks, as the command line spells them
  program::BufferPlacement placement;
  // The collective that it does; refuses options that it is not defined for.
  Result<program::CollectiveSpec> (*describe)(const AlgorithmOptions&);
  void (*build)(program::ProgramBuilder&, const AlgorithmOptions&);
};

// All of them, by the name of the collective and then of the algorithm.
std::span<const Algorithm> Algorithms();

// Builds and lowers the algorithm of that name.
// Errors: kNotFound for the name (with the names that there are), kInvalidArgument for options
// that it is not defined for (with what it needs), kResourceExhausted for too many chunks.
Result<program::Program> MakeAlgorithm(std::string_view name, const AlgorithmOptions& options);

}  // namespace espalier::algorithms
