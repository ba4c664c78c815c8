#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collective/program/builder.h"
#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::algorithms {

// The options of the algorithms; each uses only those that its `takes` names.
struct AlgorithmOptions {
  int ranks = 2;
  int root = 0;
  // The largest group of bcube (B).
  int base = 2;
  // The number of ranks per node; ranks 0, 1, ... belong to the first node. 0: there is one node.
  int ranks_per_node = 0;
  // The pieces into which a pipelined algorithm cuts a rank's share. 0: the algorithm's default.
  int pieces = 0;
  // The steps of pairwise_exchange (C). 0: lg of the number of ranks.
  int steps = 0;
  // For reduce_scatter: the chunks that each rank gets. Empty: one each.
  std::vector<int> counts;
  // The number of equal parts that move in parallel on channels of their own.
  int instances = 1;
  // Where the caller's buffers may be. None: all placements that the algorithm supports without
  // extra copies.
  std::optional<program::BufferPlacement> placement;
  // The number of messages that a connection is assumed to hold.
  int fifo_slots = 2;
};

// An algorithm, in the terms of Gloo's `algorithms.md` ("Gloo" below and in the files of this
// folder) and GC3, section 7. S is the size of the data, P the number of ranks.
struct Algorithm {
  std::string_view name;
  std::string_view summary;
  std::string_view takes;  // options beyond ranks, as the command line spells them
  program::BufferPlacement placement;
  // Describes its collective; refuses options for which the algorithm is not defined.
  Result<program::CollectiveSpec> (*describe)(const AlgorithmOptions&);
  void (*build)(program::ProgramBuilder&, const AlgorithmOptions&);
};

// All algorithms, sorted by collective and then by algorithm.
std::span<const Algorithm> Algorithms();

// Builds and lowers the algorithm of that name.
// Errors: kNotFound for an unknown name (listing the known ones), kInvalidArgument for options for
// which it is not defined (with its requirements), kResourceExhausted for too many chunks.
Result<program::Program> MakeAlgorithm(std::string_view name, const AlgorithmOptions& options);

}  // namespace espalier::algorithms
