#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/fabric/load.h"

namespace espalier::controller {

// An elephant as assigners see it. Leaves are numbered by FabricView.
struct Commodity {
  std::uint32_t source = 0;       // leaf
  std::uint32_t destination = 0;  // leaf; the same one: LOCAL, takes no path
  std::uint32_t job = 0;          // dense
  // Into how many subflows it is split (1 to kMaxSubflows); they carry equal shares, if the
  // assignment does not say otherwise.
  std::uint32_t subflows = 1;
  // The directed links of its NICs (NIC -> leaf and leaf -> NIC), which limit its rate; kNoLink: no
  // limit.
  std::uint32_t source_link = kNoLink;
  std::uint32_t destination_link = kNoLink;
};
constexpr std::uint32_t kMaxSubflows = 16;
constexpr std::uint64_t kMaxTotalSubflows =
    0xFFFF'FFFF;  // of one assignment, as their numbers have 32 bits

// Numbers the subflows of an assignment, one commodity after the other. Each commodity must have 1
// to kMaxSubflows subflows, and all together at most kMaxTotalSubflows; else it aborts.
class SubflowNumbers {
 public:
  explicit SubflowNumbers(std::uint64_t taken = 0) : taken_(taken) {}
  // Takes this many numbers and returns the first.
  std::uint32_t Take(std::uint32_t subflows);
  std::uint64_t taken() const { return taken_; }

 private:
  std::uint64_t taken_;
};

// The order in which the paper's authors run their greedy algorithm: commodities are grouped by
// their pair of leaves, the largest group first, then by source and destination. Returns indices.
// O(n log n).
std::vector<std::uint32_t> PaperOrder(std::span<const Commodity> commodities);

// Why no assignment has a lower maximum load than this one.
enum class Proof {
  kNone,         // it is not known; the lower bound shows the gap
  kTwoTiers,     // equitable colouring of a 2-tier Clos (EquitablePaths, StagedPaths)
  kNotNarrower,  // stages, in a folded Clos that is nowhere narrower upwards (StagedPaths)
  kOneHeight,    // stages, as all flows leave their pods or all stay within (StagedPaths)
  kBundles,      // colourings, in a two-tier Clos of bundles (BundledPaths)
  kDivisible,    // the wrap-around rule on flows in unequal parts (UnevenPaths)
  kBoundMet,     // no theorem applies, but the maximum load is the lower bound
};
// For operators, such as "a folded Clos that is not narrower upwards"; empty for kNone.
std::string_view ProofText(Proof proof);

// The result of an assigner. Subflow s of commodity i takes paths[first[i] + s], an index into the
// paths between its leaves (PathTable::Between, FabricView::Candidates). kNoPath: the commodity is
// LOCAL, or UNROUTABLE (no usable path). Subflows of one commodity may share a path; their shares
// add up.
struct Assignment {
  std::vector<std::uint32_t> first;  // commodities + 1
  std::vector<std::int32_t> paths;
  // By subflow, in 1 / kLoadUnit of a flow (> 0); empty: all subflows of a commodity carry the
  // same.
  std::vector<std::int64_t> shares;
  Load max_load;     // of the most loaded direction of a link between switches
  Load lower_bound;  // no assignment of these commodities has a lower max_load
  Proof proof = Proof::kNone;

  // Sets all subflows of these commodities to kNoPath (see SubflowNumbers); keeps its memory.
  void Clear(std::span<const Commodity> commodities);
  // Of a subflow by its place in `paths`, which belongs to this commodity.
  std::int64_t ShareOf(const Commodity& commodity, std::size_t subflow) const {
    return shares.empty() ? kLoadUnit / commodity.subflows : shares[subflow];
  }
  // Of a commodity's subflows; empty: they have the same.
  std::span<const std::int64_t> SharesOf(std::size_t commodity) const {
    if (shares.empty()) return {};
    return std::span(shares).subspan(first[commodity], first[commodity + 1] - first[commodity]);
  }
  std::span<const std::int32_t> PathsOf(std::size_t commodity) const {
    return std::span(paths).subspan(first[commodity], first[commodity + 1] - first[commodity]);
  }
};

// Whether both assignments divide this commodity, their `index`-th, in the same way.
bool HasSameShares(const Commodity& commodity, std::size_t index, const Assignment& a,
                   const Assignment& b);

// The load of every directed link, in units of 1 / kLoadUnit of a flow; all shares are integers.
std::vector<std::int64_t> ComputeLoads(const FabricView& view,
                                       std::span<const Commodity> commodities,
                                       const Assignment& assignment);

}  // namespace espalier::controller
