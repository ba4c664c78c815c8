#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace espalier::graph {

// Computes the max-min fair rates of flows on fixed paths: no flow's rate can grow without reducing
// that of another flow that is not faster (Bertsekas and Gallager, Data Networks, section 6.5.2).
// With weights, the ratio rate / weight is made fair.
//
// Method: water-filling, which fixes in one pass every link that is the bottleneck of all its open
// flows, instead of one link at a time. The share of such a link is final, because none of its
// flows is limited more by another link.
// Complexity: O(passes x sum of the open flows' path lengths), with at most as many passes as
// different rates, and a handful in practice. The cost depends on the links in use, not on all
// links. Measured by tests/bench/assignment_bench.cc (2,048 flows on 4 links each): see
// docs/benchmarks.md. A reused workspace allocates nothing.
//
// Tolerance: let g = (n + 2) * 2^-53 for the n flows of a link. Each link's rates sum to at most
// capacity * (1 + g), and each flow has a link that is full to within capacity * g on which no
// flow is faster by more than that. These two conditions define max-min fairness, and the tests
// check them (1e-12 for up to 4,096 flows).
// Thread safety: one thread per workspace.
class MaxMin {
 public:
  // Flow i passes the links path_links[path_begin[i] .. path_begin[i + 1]), each at most once; they
  // are indices into `capacities` (>= 0, any unit). `weights` (>= 1) are by flow; empty: all 1.
  // Returns the rate of each flow in the unit of the capacities, valid until the next call. A flow
  // without links gets `unlimited`.
  std::span<const double> Solve(std::span<const double> capacities,
                                std::span<const std::uint32_t> path_begin,
                                std::span<const std::uint32_t> path_links, double unlimited,
                                std::span<const std::uint32_t> weights = {});

 private:
  struct Link {
    double left = 0;                // capacity that fixed flows leave
    double share = 0;               // left / open_weight
    std::uint64_t open_weight = 0;  // weight of its flows that are not fixed
    std::uint32_t stamp = 0;        // call that set the fields above
    std::uint32_t blocked = 0;      // pass in which another link limits one of its flows more
  };

  void Open(std::span<const double> capacities, std::span<const std::uint32_t> path_begin,
            std::span<const std::uint32_t> path_links, std::span<const std::uint32_t> weights);
  // Fixes the flows of every link that is the bottleneck of all its open flows.
  void FixOneLayer(std::span<const std::uint32_t> path_begin,
                   std::span<const std::uint32_t> path_links,
                   std::span<const std::uint32_t> weights);

  std::vector<Link> links_;
  std::vector<double> rates_;
  std::vector<double> tightest_;           // by open flow: smallest share on its path
  std::vector<std::uint32_t> open_flows_;  // not fixed yet
  std::vector<std::uint32_t> touched_;     // links that lost flows in this pass
  std::uint32_t stamp_ = 0;
  std::uint32_t pass_ = 0;
};

}  // namespace espalier::graph
