#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/fabric/folded_clos.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "controller/routing/fabric/bundled_clos.h"

namespace espalier::controller {

// Assigners identify directed links by DirectedLink::Index().
constexpr std::uint32_t kNoLink = std::numeric_limits<std::uint32_t>::max();
// The only link of a NIC, by which flows enter or leave the fabric besides the hops of their paths.
inline std::uint32_t HostLink(std::optional<fabric::DirectedLink> link) {
  return link ? static_cast<std::uint32_t>(link->Index()) : kNoLink;
}
// Assigners identify paths by their index among the candidate paths of their leaves.
constexpr std::int32_t kNoPath = -1;

// A 2-tier Clos as flat arrays. Every switch-to-switch link joins a leaf (tier 0) and a spine (tier
// 1), and no two links are parallel. The paths between two leaves are then the spines to which both
// have a link, in order. Arrays have entries leaf * spines + spine; masks have `words` 64-bit words
// per leaf.
struct Clos {
  std::uint32_t leaves = 0;
  std::uint32_t spines = 0;
  std::uint32_t words = 0;
  std::vector<std::uint32_t> up;          // link leaf -> spine; kNoLink: none
  std::vector<std::uint32_t> down;        // link spine -> leaf
  std::vector<std::uint64_t> up_known;    // the link exists, in any state
  std::vector<std::uint64_t> down_known;  //
  std::vector<std::uint64_t> up_live;     // the link is usable (UP)
  std::vector<std::uint64_t> down_live;
  bool all_known = false;  // all leaves have links in both directions with all spines: path = spine
  bool equal_rates = false;  // of all usable links

  // Converts a spine to which both leaves have a link to a path (index into PathTable::Between),
  // and back.
  std::int32_t PathThrough(std::uint32_t source, std::uint32_t destination,
                           std::uint32_t spine) const;
  std::uint32_t SpineOf(std::uint32_t source, std::uint32_t destination, std::int32_t path) const;
};

// The candidate paths P_uv between two leaves. Path p takes the directed links hops[hop_begin[p] ..
// hop_begin[p + 1]).
struct CandidatePaths {
  std::vector<std::uint32_t> hop_begin{0};
  std::vector<std::uint32_t> hops;

  std::size_t size() const { return hop_begin.size() - 1; }
  std::span<const std::uint32_t> Hops(std::size_t path) const {
    return std::span(hops).subspan(hop_begin[path], hop_begin[path + 1] - hop_begin[path]);
  }
};

// The directed links of one path: some of its own, or a reference to others'.
class PathLinks {
 public:
  PathLinks(std::uint32_t up, std::uint32_t down) {
    own_[0] = up;
    own_[1] = down;
  }
  explicit PathLinks(std::span<const std::uint32_t> links)
      : links_(links.data()), count_(links.size()) {}
  // The path of this label of a folded Clos, between leaves with these ancestors by tier, whose
  // lowest common one is of the tier `top`.
  PathLinks(const fabric::FoldedClos& clos, const std::uint32_t* from, const std::uint32_t* to,
            std::uint32_t top, std::uint32_t label)
      : count_(2 * std::size_t{top}) {
    for (std::uint32_t tier = top; tier > 0; --tier) {
      own_[tier - 1] = clos.UpLink(clos.blocks[from[tier - 1]], label);
      own_[2 * top - tier] = clos.DownLink(clos.blocks[to[tier - 1]], label);
      label /= clos.blocks[from[tier]].width;
    }
  }

  const std::uint32_t* begin() const { return links_ == nullptr ? own_.data() : links_; }
  const std::uint32_t* end() const { return begin() + count_; }

 private:
  // A folded Clos has at most 8 tiers. Not set beyond count_.
  std::array<std::uint32_t, 14> own_;
  const std::uint32_t* links_ = nullptr;
  std::size_t count_ = 2;
};

// The fabric as assigners see it: densely numbered leaves, exact link capacities, candidate paths.
// Leaves are the switches with NICs attached, and the NICs with several uplinks, in file order.
//
// The topology and the table must outlive it. After link states have changed, call Refresh().
// Thread safety: one thread, also for const calls (candidate paths are listed on first use and
// kept).
class FabricView {
 public:
  FabricView(const fabric::Topology& topology, const fabric::PathTable& paths);

  // Reads the link states again. O(links).
  void Refresh();

  std::uint32_t leaf_count() const { return static_cast<std::uint32_t>(leaves_.size()); }
  fabric::NodeId LeafNode(std::uint32_t leaf) const { return leaves_[leaf]; }
  // None if the switch is not a leaf.
  std::optional<std::uint32_t> LeafOf(fabric::NodeId node) const;

  // Bits per second by directed link, including hosts' links; 0 if it takes no new flow (DOWN,
  // DRAINED, or the direction that a directed link does not have).
  std::span<const std::int64_t> capacities() const { return capacities_; }
  // The same as doubles, for MaxMin.
  std::span<const double> capacities_bps() const { return capacities_bps_; }
  // Capacity of the fastest fabric link (Topology::IsFabricLink) in any state; loads are relative
  // to it. "Links between switches" are these links here.
  std::int64_t unit_bps() const { return unit_bps_; }
  bool IsSwitchLink(std::uint32_t link) const { return is_switch_link_[link]; }
  // Calls visit(leaf, link, leaves_it) for each switch-to-switch link of each leaf; `leaves_it`:
  // the link starts at the leaf.
  template <typename Visitor>
  void ForEachLeafLink(const Visitor& visit) const {
    for (std::uint32_t link = 0; link < capacities_.size(); ++link) {
      if (!is_switch_link_[link]) continue;
      const auto hop = fabric::DirectedLink::FromIndex(link);
      if (const auto leaf = LeafOf(topology_.From(hop))) visit(*leaf, link, true);
      if (const auto leaf = LeafOf(topology_.To(hop))) visit(*leaf, link, false);
    }
  }

  // Set if the fabric is a 2-tier Clos.
  const std::optional<Clos>& clos() const { return clos_; }

  // Set if the fabric is no folded Clos, but a two-tier one of bundles.
  const std::optional<BundledClos>& bundled_clos() const { return bundled_clos_; }

  // Set if the fabric is a folded Clos of two or more tiers. Its leaves are numbered by FoldedLeaf;
  // not all of them need to have NICs.
  const std::optional<fabric::FoldedClos>& folded_clos() const { return folded_clos_; }
  std::uint32_t FoldedLeaf(std::uint32_t leaf) const { return folded_leaves_[leaf]; }
  // The links above the blocks of a tier of one part of the folded Clos.
  struct TierLinks {
    bool all_live = true;       // all links that exist take new flows
    bool has_one_rate = true;   // of those that take new flows
    std::int64_t rate_bps = 0;  // of one of them; 0: there is none
  };
  const TierLinks& LinksAbove(std::uint32_t part, std::uint32_t tier) const {
    return tier_links_[std::size_t{part} * folded_clos_->tiers + tier];
  }
  // Whether all links of the folded Clos take new flows.
  bool has_all_tier_links() const { return std::ranges::all_of(tier_links_, &TierLinks::all_live); }

  // The candidate paths in the order of PathTable::Between, including unusable ones. The reference
  // stays valid. In a large Clos, prefer clos() and folded_clos(): every list made here is kept.
  const CandidatePaths& Candidates(std::uint32_t source, std::uint32_t destination) const;
  // Whether every hop takes new flows.
  bool IsUsable(std::span<const std::uint32_t> hops) const;
  // Appends the links of a path between two leaves to `links`. In a folded Clos it lists no
  // candidates.
  void AppendHops(std::uint32_t source, std::uint32_t destination, std::int32_t path,
                  std::vector<std::uint32_t>& links) const;

 private:
  void FindLeaves();
  void FindClos();
  void FindFoldedClos();
  void RefreshClos();
  void RefreshTierLinks();

  const fabric::Topology& topology_;
  const fabric::PathTable& paths_;
  std::vector<fabric::NodeId> leaves_;
  std::vector<std::int32_t> leaf_of_;  // by node; -1
  std::vector<std::int64_t> capacities_;
  std::vector<double> capacities_bps_;
  std::vector<bool> is_switch_link_;
  std::int64_t unit_bps_ = 1;
  std::optional<Clos> clos_;
  std::optional<fabric::FoldedClos> folded_clos_;
  std::optional<BundledClos> bundled_clos_;
  std::vector<std::uint32_t> folded_leaves_;  // by leaf
  std::vector<TierLinks> tier_links_;         // by part and tier
  mutable std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<CandidatePaths>>
      candidates_;
};

}  // namespace espalier::controller
