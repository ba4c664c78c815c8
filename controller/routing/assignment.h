#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/fabric/load.h"

namespace espalier::controller {

// An elephant as assigners see it: from leaf to leaf, numbered by FabricView.
struct Commodity {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;  // the same leaf: LOCAL, takes no path
  std::uint32_t job = 0;          // dense
  std::uint32_t phase = 0;        // of its job (its ring), for the third layer of fairness
  // Over how many queue pairs it is split (1 to kMaxSubflows): each carries 1/ways of it.
  std::uint32_t subflows = 1;
  // The links of its two NICs (directed, NIC -> leaf and leaf -> NIC), which bound its rate;
  // kNoLink where that is not to count.
  std::uint32_t source_link = kNoLink;
  std::uint32_t destination_link = kNoLink;
};
constexpr std::uint32_t kMaxSubflows = 16;
constexpr std::uint64_t kMaxTotalSubflows =
    0xFFFF'FFFF;  // of one assignment: they are numbered by 32 bits

// Numbers the ways of an assignment, one commodity after the other. A commodity of none or more
// than kMaxSubflows, and more than kMaxTotalSubflows in all, is a broken invariant.
class SubflowNumbers {
 public:
  explicit SubflowNumbers(std::uint64_t taken = 0) : taken_(taken) {}
  // The number of the first of so many.
  std::uint32_t Take(std::uint32_t subflows);
  std::uint64_t taken() const { return taken_; }

 private:
  std::uint64_t taken_;
};

// The order in which the paper's authors feed their greedy: commodities grouped by their leaves,
// the groups by falling size and then by source and destination. Returns indices. O(n log n).
std::vector<std::uint32_t> PaperOrder(std::span<const Commodity> commodities);

// What an assigner decides. Way w of commodity i takes paths[first[i] + w], an index into the
// paths of its leaves (PathTable::Between, FabricView::Candidates), or kNoPath: the commodity is
// LOCAL, or UNROUTABLE (no usable path). Ways of one commodity may share a path where there are
// fewer paths than ways; their shares add up.
struct Assignment {
  std::vector<std::uint32_t> first;  // commodities + 1
  std::vector<std::int32_t> paths;
  Load max_load;     // of the most loaded switch-to-switch direction
  Load lower_bound;  // no assignment of these commodities (with these ways) has a lower max_load

  // All ways of these commodities (see SubflowNumbers), none with a path; keeps its memory.
  void Clear(std::span<const Commodity> commodities);
  std::span<const std::int32_t> PathsOf(std::size_t commodity) const {
    return std::span(paths).subspan(first[commodity], first[commodity + 1] - first[commodity]);
  }
};

// The load of every directed link, in units of 1 / kLoadUnit of a flow: all shares are whole.
std::vector<std::int64_t> ComputeLoads(const FabricView& view,
                                       std::span<const Commodity> commodities,
                                       const Assignment& assignment);

}  // namespace espalier::controller
