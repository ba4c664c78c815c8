#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/algorithms/forest_program.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/tree_schedule.h"
#include "collective/program/program_bytes.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "proto/limits.h"

namespace espalier::controller {

// The most bytes of a program, or of a rank's part of it, in a rank plan: leaves room in a message
// for the ports of the rank's connections.
inline constexpr std::size_t kMaxProgramBytes = wire::kMaxMessageBytes - (std::size_t{256} << 10);

// The input from which a forest is computed; it is immutable.
struct ForestRequest {
  std::shared_ptr<const fabric::Topology> topology;
  // The residual capacity of each directed link, by DirectedLink::Index(); empty: all of it.
  std::vector<BitsPerSecond> available;
  std::string name;
  forest::Collective collective = forest::Collective::kAllreduce;
  std::vector<fabric::NodeId> ranks;
  bool one_nic = false;  // each rank must use one NIC
  // Some agent takes whole programs only, which must fit a message.
  bool whole_program = false;
};

// One connection of the program, from rank to rank over one channel.
struct TreeEdge {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t channel = 0;
  std::int64_t chunks = 0;  // sent over it in one run
  // Its NICs. If it stays within a host, those of its ranks.
  fabric::NodeId source_nic;
  fabric::NodeId destination_nic;
  bool leaves_host = false;
  // Its path between two leaves, which a source port realises; none within a host or leaf.
  struct Crossing {
    fabric::NodeId source_leaf;
    fabric::NodeId destination_leaf;
    fabric::PathIndex path;  // of PathTable::Between
    double rate_gbps = 0;    // mean over one run
    bool operator==(const Crossing&) const = default;
  };
  std::optional<Crossing> crossing;
  bool operator==(const TreeEdge&) const = default;
};

// A forest, its verified program, and the connections of the program on the fabric.
struct JobForest {
  program::EncodedProgram program;
  std::int64_t chunks = 0;      // of the program's collective
  std::vector<TreeEdge> edges;  // by (from, to, channel)
  // The trees that the edges carry, each with its part of the data; `connections` index edges.
  std::vector<algorithms::TreeConnections> tree_classes;
  // By rank: the NIC at which others reach it, one of those that its edges use.
  std::vector<fabric::NodeId> nics;
  std::vector<bool> has_choice;  // by rank: its host has several NICs
  std::int64_t trees = 0;        // for each rank
  double algbw_gbps = 0;         // data over time, as nccl-tests defines it
  double bound_gbps = 0;         // throughput bound
  bool operator==(const JobForest&) const = default;
};

// Computes the forest, its program and the path of every connection, and verifies the program.
// Pure, but slow: run it in the background. If the best forest has edges that ECMP would not carry,
// or a rank that needs several NICs although ForestRequest::one_nic is set, it returns a forest
// without these (forest/ecmp/ecmp_forest.h), which may be slower: algbw_gbps is that of the result.
// Ranks use several NICs only if that makes the forest faster. Errors:
// kUnavailable when cancelled; kFailedPrecondition for ranks that cannot reach each other over ECMP
// paths or a rank without an address; kResourceExhausted for a program that is too large to be
// verified, or to be sent: the part of a rank, or the whole program if an agent needs that.
Result<JobForest> BuildJobForest(const ForestRequest& request, const forest::Control& control = {});

}  // namespace espalier::controller
