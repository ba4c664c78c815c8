#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/fabric/topology.h"
#include "controller/planning/link_or_switch.h"

namespace espalier::controller {

// How much load hosts shift to each link, for every single failure, when all their flows that have
// lost their path go on by their standby paths. The unit is 1 / kLoadUnit of a flow.
//
// The failures that count are those of the switches between the first and the last of a path. The
// failure of one link takes some of the flows of a switch at its ends, so it shifts no more to any
// link than the failure of that switch. A path of one link counts for the failure of this link.
//
// Memory: an entry for each pair of a failure and a link to which it shifts load.
// Thread safety: one thread.
class ShiftLoads {
 public:
  // The topology must outlive it.
  explicit ShiftLoads(const fabric::Topology& topology) : topology_(topology) {}

  // A share of a flow is on `path` and has this standby path, both as directed links
  // (DirectedLink::Index). O(hops squared).
  void Add(std::span<const std::uint32_t> path, std::span<const std::uint32_t> standby,
           std::int64_t share) {
    Count(path, standby, share);
  }
  // Takes back an Add with the same arguments.
  void Remove(std::span<const std::uint32_t> path, std::span<const std::uint32_t> standby,
              std::int64_t share) {
    Count(path, standby, -share);
  }

  // The most that a failure on `path` shifts to this directed link. O(hops).
  std::int64_t MostOn(std::uint32_t link, std::span<const std::uint32_t> path) const;

  // Calls visit(failure, link, units) for each failure and each directed link to which it shifts
  // load, in no particular order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const auto& [key, units] : units_) {
      visit(FailureOf(static_cast<std::uint32_t>(key >> 32U)), static_cast<std::uint32_t>(key),
            units);
    }
  }
  std::size_t size() const { return units_.size(); }

  // How many failures count for both paths.
  std::size_t CountCommon(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) const;

 private:
  // Calls visit(index) for the failures that count for a path: nodes, and after them links.
  template <typename Visit>
  void ForEachFailure(std::span<const std::uint32_t> path, const Visit& visit) const {
    const auto nodes = static_cast<std::uint32_t>(topology_.nodes().size());
    if (path.size() == 1) {
      const fabric::LinkId link = fabric::DirectedLink::FromIndex(path.front()).link;
      return visit(nodes + static_cast<std::uint32_t>(link.Index()));
    }
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      const fabric::NodeId node = topology_.To(fabric::DirectedLink::FromIndex(path[i]));
      visit(static_cast<std::uint32_t>(node.Index()));
    }
  }
  LinkOrSwitch FailureOf(std::uint32_t index) const;
  void Count(std::span<const std::uint32_t> path, std::span<const std::uint32_t> standby,
             std::int64_t share);
  static std::uint64_t KeyOf(std::uint32_t failure, std::uint32_t link) {
    return std::uint64_t{failure} << 32U | link;
  }

  const fabric::Topology& topology_;
  std::unordered_map<std::uint64_t, std::int64_t> units_;  // by KeyOf; none is 0
};

}  // namespace espalier::controller
