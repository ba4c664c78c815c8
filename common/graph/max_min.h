#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace espalier::graph {

// The max-min fair rates of flows on fixed paths: no flow's rate can grow without that of another,
// which is no faster, becoming smaller (Bertsekas and Gallager, Data Networks, section 6.5.2).
// With weights, rate / weight is what is made fair.
//
// Method: water-filling, every link that is the tightest of all its open flows at once. Such a
// link's share is final, as only flows that are faster elsewhere could leave it, and none is; so
// whole layers of bottlenecks are fixed in one pass instead of one link at a time.
// Complexity: O(passes x sum of the open flows' path lengths); there are no more passes than
// different rates, and a handful in practice. Measured by tests/bench/assignment_bench.cc
// (2,048 flows on 4 links each): see docs/benchmarks.md. Memory is kept from call to call: a
// workspace that
// is used again allocates nothing. Cost depends on the links in use, not on all links.
//
// Tolerance: let g = (n + 2) * 2^-53 for the n flows of a link. Each link's rates sum to at most
// capacity * (1 + g), and each flow has a link that is full to within capacity * g on which no
// flow is faster by more than that; these two conditions define max-min fairness and are what
// the tests check (1e-12 for up to 4,096 flows).
// Thread safety: one thread per workspace.
class MaxMin {
 public:
  // Flow i passes the links path_links[path_begin[i] .. path_begin[i + 1]), none twice: indices
  // into `capacities` (>= 0, any unit). `weights` (>= 1) by flow; empty: all 1.
  // Returns the rate of each flow, in the unit of the capacities, valid until the next call. A
  // flow on no link has no limit and gets `unlimited`.
  std::span<const double> Solve(std::span<const double> capacities,
                                std::span<const std::uint32_t> path_begin,
                                std::span<const std::uint32_t> path_links, double unlimited,
                                std::span<const std::uint32_t> weights = {});

 private:
  struct Link {
    double left = 0;                // capacity that no fixed flow has
    double share = 0;               // left / open_weight
    std::uint64_t open_weight = 0;  // of the flows on it that are not fixed
    std::uint32_t stamp = 0;        // of the call that set the above
    std::uint32_t blocked = 0;      // pass that found one of its flows tighter elsewhere
  };

  void Open(std::span<const double> capacities, std::span<const std::uint32_t> path_begin,
            std::span<const std::uint32_t> path_links, std::span<const std::uint32_t> weights);
  // Fixes the flows of every link that is the tightest of all its open flows.
  void FixOneLayer(std::span<const std::uint32_t> path_begin,
                   std::span<const std::uint32_t> path_links,
                   std::span<const std::uint32_t> weights);

  std::vector<Link> links_;
  std::vector<double> rates_;
  std::vector<double> tightest_;           // by open flow: the least share on its path
  std::vector<std::uint32_t> open_flows_;  // not fixed yet
  std::vector<std::uint32_t> touched_;     // links that lost flows in this pass
  std::uint32_t stamp_ = 0;
  std::uint32_t pass_ = 0;
};

}  // namespace espalier::graph
