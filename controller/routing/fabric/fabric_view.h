#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/fabric/paths.h"
#include "common/fabric/topology.h"

namespace espalier::controller {

// Directed links are named by DirectedLink::Index() throughout assignment.
constexpr std::uint32_t kNoLink = std::numeric_limits<std::uint32_t>::max();
// Paths are named by their index among the candidates of their leaves.
constexpr std::int32_t kNoPath = -1;

// A 2-layer Clos as flat arrays: every switch-to-switch link joins a leaf (tier 0) and a spine
// (tier 1), and none has a parallel. Then the paths between two leaves are the spines that both
// know, in order. Entry leaf * spines + spine; masks have `words` 64-bit words a leaf.
struct Clos {
  std::uint32_t leaves = 0;
  std::uint32_t spines = 0;
  std::uint32_t words = 0;
  std::vector<std::uint32_t> up;          // link leaf -> spine; kNoLink where there is none
  std::vector<std::uint32_t> down;        // link spine -> leaf
  std::vector<std::uint64_t> up_known;    // there is such a link, whatever its state
  std::vector<std::uint64_t> down_known;  //
  std::vector<std::uint64_t> up_live;     // and it takes new flows (UP)
  std::vector<std::uint64_t> down_live;
  bool all_known = false;  // every leaf has links both ways with every spine: path = spine
  bool equal_rates = false;

  // Path (index into PathTable::Between) through a spine that both leaves know, and back.
  std::int32_t PathThrough(std::uint32_t source, std::uint32_t destination,
                           std::uint32_t spine) const;
  std::uint32_t SpineOf(std::uint32_t source, std::uint32_t destination, std::int32_t path) const;
};

// The candidate paths P_uv of a pair of leaves: path p takes the directed links
// hops[hop_begin[p] .. hop_begin[p + 1]).
struct CandidatePaths {
  std::vector<std::uint32_t> hop_begin{0};
  std::vector<std::uint32_t> hops;

  std::size_t size() const { return hop_begin.size() - 1; }
  std::span<const std::uint32_t> Hops(std::size_t path) const {
    return std::span(hops).subspan(hop_begin[path], hop_begin[path + 1] - hop_begin[path]);
  }
};

// The directed links of one path, held or pointed at.
class PathLinks {
 public:
  PathLinks(std::uint32_t up, std::uint32_t down) : own_{up, down} {}
  explicit PathLinks(std::span<const std::uint32_t> links)
      : links_(links.data()), count_(links.size()) {}

  const std::uint32_t* begin() const { return links_ == nullptr ? own_.data() : links_; }
  const std::uint32_t* end() const { return begin() + count_; }

 private:
  std::array<std::uint32_t, 2> own_{};
  const std::uint32_t* links_ = nullptr;
  std::size_t count_ = 2;
};

// A fabric as assigners see it: leaves numbered densely, exact link capacities, candidate paths.
// Leaves are the switches that flows can start or end at (NICs hang on them), in file order.
//
// The topology and the table must outlive it. After link states have changed: Refresh().
// Thread safety: one thread, for const calls too (candidate paths are listed on first use and
// kept).
class FabricView {
 public:
  FabricView(const fabric::Topology& topology, const fabric::PathTable& paths);

  // Reads the links' states again. O(links).
  void Refresh();

  std::uint32_t leaf_count() const { return static_cast<std::uint32_t>(leaves_.size()); }
  fabric::NodeId LeafNode(std::uint32_t leaf) const { return leaves_[leaf]; }
  // None where the switch is no leaf.
  std::optional<std::uint32_t> LeafOf(fabric::NodeId node) const;

  // Bits a second by directed link, of hosts' links too; 0 where it takes no new flow (DOWN,
  // DRAINED, or the direction that a directed link does not have).
  std::span<const std::int64_t> capacities() const { return capacities_; }
  // The same as doubles, for MaxMin.
  std::span<const double> capacities_bps() const { return capacities_bps_; }
  // Capacity of the fastest switch-to-switch link, whatever its state: loads are relative to it.
  std::int64_t unit_bps() const { return unit_bps_; }
  bool IsSwitchLink(std::uint32_t link) const { return is_switch_link_[link]; }
  // Calls visit(leaf, link, leaves_it) for the switch-to-switch links at every leaf.
  template <typename Visitor>
  void ForEachLeafLink(const Visitor& visit) const {
    for (std::uint32_t link = 0; link < capacities_.size(); ++link) {
      if (!is_switch_link_[link]) continue;
      const auto hop = fabric::DirectedLink::FromIndex(link);
      if (const auto leaf = LeafOf(topology_.From(hop))) visit(*leaf, link, true);
      if (const auto leaf = LeafOf(topology_.To(hop))) visit(*leaf, link, false);
    }
  }

  // Set if the fabric is one; Optimal uses the exact algorithm then.
  const std::optional<Clos>& clos() const { return clos_; }

  // Listed in the order of PathTable::Between, unusable ones too, so that indices agree. For a
  // big Clos prefer clos(): this keeps what it lists. The reference stays valid.
  const CandidatePaths& Candidates(std::uint32_t source, std::uint32_t destination) const;
  // Every hop takes new flows.
  bool IsUsable(std::span<const std::uint32_t> hops) const;
  // The links of a path between leaves, appended to `links`. Costs nothing to speak of in a Clos.
  void AppendHops(std::uint32_t source, std::uint32_t destination, std::int32_t path,
                  std::vector<std::uint32_t>& links) const;

 private:
  void FindLeaves();
  void FindClos();
  void RefreshClos();

  const fabric::Topology& topology_;
  const fabric::PathTable& paths_;
  std::vector<fabric::NodeId> leaves_;
  std::vector<std::int32_t> leaf_of_;  // by node; -1
  std::vector<std::int64_t> capacities_;
  std::vector<double> capacities_bps_;
  std::vector<bool> is_switch_link_;
  std::int64_t unit_bps_ = 1;
  std::optional<Clos> clos_;
  mutable std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<CandidatePaths>>
      candidates_;
};

}  // namespace espalier::controller
