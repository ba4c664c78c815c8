#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "collective/forest/model/forest.h"
#include "collective/forest/model/rational.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

enum class Collective { kAllgather, kReduceScatter, kAllreduce, kBroadcast, kReduce };
// "allgather", "reduce-scatter", ...: as in files and on the command line.
std::string_view CollectiveName(Collective collective);
std::optional<Collective> FindCollective(std::string_view name);
// What a collective consists of: data that goes up to the roots of trees and is added up on the
// way, data that goes down from them, or first the one and then the other.
bool GoesUp(Collective collective);
bool GoesDown(Collective collective);
// Broadcast and reduce: all data is of one rank.
bool HasRoot(Collective collective);

// All capacity from one node to another (parallel links are one), in the direction of the data.
struct Channel {
  fabric::NodeId from;
  fabric::NodeId to;
  bool operator==(const Channel&) const = default;
};

// One pass over a set of trees. Allreduce has two: reduce-scatter, then allgather.
struct Phase {
  std::size_t forest = 0;  // into Plan::forests
  // False: data goes from the roots down. True: in-trees; every edge carries data from the child
  // to its parent, and the hops of a route, listed from parent to child, are walked backwards.
  bool reversed = false;
  std::vector<Channel> channels;  // what the hops of the forest's routes stand for
};

// A switch that copies for an edge of a tree, or adds up what comes over it.
struct CopyPoint {
  std::size_t phase = 0;
  std::size_t tree_class = 0;  // of the phase's forest
  Rank child = kNoRank;        // the edge's lower end
  fabric::NodeId at;
};

// A schedule in the terms of the topology: all that files hold, verification reads and show prints.
// Rates are Gbit/s, inverse rates 1/(Gbit/s), exact.
struct TreeSchedule {
  Collective collective = Collective::kAllgather;
  std::vector<fabric::NodeId> ranks;  // what the forests' ranks stand for
  std::vector<std::int64_t> weights;  // by rank; shard sizes over their greatest common divisor
  bool on_share = false;              // made for a part of the links' bandwidth
  bool in_network = false;            // switches that can, copy and add up (in_network.h)

  // No schedule is faster: max over cuts of the weight on the source side over B+.
  Rational bound_inverse_rate;
  std::vector<fabric::NodeId> cut;  // source side of a cut that attains it

  std::int64_t trees_per_weight = 0;  // k
  Rational tree_gbps;                 // 1 / U
  Rational inverse_rate;              // attained: U / k, of one phase

  std::vector<Forest> forests;
  std::vector<Phase> phases;
  // What a file says of the switches that copy or add up, if it says that edge by edge:
  // CountPrunedLoads compares it with what follows from the trees.
  std::optional<std::vector<CopyPoint>> stated_copies;

  std::int64_t TotalWeight() const;
  // Data over time as nccl-tests defines it: total weight / inverse rate for allgather and
  // reduce-scatter, half of it for allreduce, 1 / inverse rate for broadcast and reduce.
  // inverse_rate > 0.
  Rational AlgorithmGbps(const Rational& of_inverse_rate) const;
  Rational FractionOfBound() const;  // bound over attained, 1 at best
};

}  // namespace espalier::forest
