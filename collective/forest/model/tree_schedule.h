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
// Say what a collective consists of: reducing data up to the roots of trees, sending data down from
// the roots, or first the one and then the other.
bool GoesUp(Collective collective);
bool GoesDown(Collective collective);
// True for broadcast and reduce, in which one rank has all data.
bool HasRoot(Collective collective);

// All capacity from one node to another, parallel links together, in the direction of the data.
struct Channel {
  fabric::NodeId from;
  fabric::NodeId to;
  bool operator==(const Channel&) const = default;
};

// One pass over a set of trees. Allreduce has two: reduce-scatter, then allgather.
struct Phase {
  std::size_t forest = 0;  // into TreeSchedule::forests
  // False: data goes down from the roots. True: in-trees; every edge carries data from the child to
  // its parent, and the hops of a route, listed from parent to child, are walked backwards.
  bool reversed = false;
  std::vector<Channel> channels;  // what the hops of the forest's routes refer to
};

// A switch that copies or adds up data for an edge of a tree.
struct CopyPoint {
  std::size_t phase = 0;
  std::size_t tree_class = 0;  // of the phase's forest
  Rank child = kNoRank;        // the edge's lower end
  fabric::NodeId at;
};

// A schedule in terms of the topology: everything that files hold, the verifier reads and `forest
// show` prints. Rates are Gbit/s, inverse rates 1/(Gbit/s), exact.
struct TreeSchedule {
  Collective collective = Collective::kAllgather;
  std::vector<fabric::NodeId> ranks;  // the nodes of the forests' ranks
  std::vector<std::int64_t> weights;  // by rank; shard sizes over their greatest common divisor
  bool on_share = false;              // made for a part of the links' bandwidth
  bool in_network = false;            // switches copy and add up if they can (in_network.h)

  // The throughput bound, which no schedule beats: max over cuts of the weight on the source side
  // over B+.
  Rational bound_inverse_rate;
  std::vector<fabric::NodeId> cut;  // source side of a cut that attains it

  std::int64_t trees_per_weight = 0;  // k
  Rational tree_gbps;                 // 1 / U
  Rational inverse_rate;              // attained by one phase: U / k

  std::vector<Forest> forests;
  std::vector<Phase> phases;
  // The switches that copy or add up, if a file states them edge by edge. CountPrunedLoads compares
  // them with those that follow from the trees.
  std::optional<std::vector<CopyPoint>> stated_copies;

  std::int64_t TotalWeight() const;
  // The algorithm bandwidth (data over time) as nccl-tests defines it: total weight / inverse rate
  // for allgather and reduce-scatter, half of it for allreduce, 1 / inverse rate for broadcast and
  // reduce.
  // Precondition: inverse_rate > 0.
  Rational AlgorithmGbps(const Rational& of_inverse_rate) const;
  Rational FractionOfBound() const;  // bound over attained, 1 at best
};

}  // namespace espalier::forest
