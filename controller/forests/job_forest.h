#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/algorithms/forest_program.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/tree_schedule.h"
#include "collective/program/program.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"

namespace espalier::controller {

// What a forest is made from: nothing in it changes any more.
struct ForestRequest {
  std::shared_ptr<const fabric::Topology> topology;
  // What other flows leave of each direction of each link, by DirectedLink::Index(); empty: all.
  std::vector<BitsPerSecond> available;
  std::string name;
  forest::Collective collective = forest::Collective::kAllreduce;
  std::vector<fabric::NodeId> ranks;
};

// One connection of the program: from rank to rank, over one channel.
struct TreeEdge {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t channel = 0;
  std::int64_t chunks = 0;  // that one run sends over it
  // Its way between two leaves, which a source port realises; none within a host or a leaf.
  struct Crossing {
    fabric::NodeId source_leaf;
    fabric::NodeId destination_leaf;
    fabric::PathIndex path;  // of PathTable::Between
    double rate_gbps = 0;    // mean over a run
    bool operator==(const Crossing&) const = default;
  };
  std::optional<Crossing> crossing;
  bool operator==(const TreeEdge&) const = default;
};

// A forest, its verified program, and what that is on the fabric.
struct JobForest {
  program::Program program;
  std::vector<TreeEdge> edges;  // by (from, to, channel)
  // The trees whose parts of the data the edges carry; their `connections` are edges.
  std::vector<algorithms::TreeConnections> tree_classes;
  std::vector<fabric::NodeId> nics;  // by rank: where it sends from and is reached
  std::int64_t trees = 0;            // a rank
  double algbw_gbps = 0;             // data over time, as nccl-tests defines it
  double bound_gbps = 0;             // no schedule has a higher one
  bool operator==(const JobForest&) const = default;
};

// The whole way from the fabric to a program that can be handed out: forest, program, verifier,
// and the path of every connection. Pure; takes as long as forests take, so it belongs on a pool.
// Where the best forest has edges that ECMP would not carry, or a rank that would need several
// NICs, it is one that has neither (forest/ecmp/ecmp_forest.h), which may be slower: algbw_gbps
// says so. Errors: kUnavailable when cancelled; kFailedPrecondition for ranks that cannot reach
// each other over paths that ECMP would take, a rank that has no address; kResourceExhausted for a
// program that is too large to be sent or verified.
Result<JobForest> BuildJobForest(const ForestRequest& request, const forest::Control& control = {});

}  // namespace espalier::controller
