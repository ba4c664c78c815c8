#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/fabric/topology.h"
#include "controller/planning/link_or_switch.h"

namespace espalier::controller {

// How much load hosts shift to each link, for every single failure, when all their flows that have
// lost their path, or the return path of their acknowledgements, go on by their standby paths. The
// unit is 1 / kLoadUnit of a flow.
//
// The failures that count are those of the switches between the first and the last of a path. A
// path of one link counts for the failure of this link. The failure of one link takes some of the
// flows of a switch at its ends, so it adds no more to any link than the failure of that switch. It
// may relieve a link less, though: of flows that lose only their acknowledgements, which leave a
// path that is alive.
//
// Memory: an entry for each pair of a failure and a link to which it shifts load.
// Thread safety: one thread.
class ShiftLoads {
 public:
  // The topology must outlive it.
  explicit ShiftLoads(const fabric::Topology& topology) : topology_(topology) {}

  // A share of a flow with the paths that decide where it goes, as directed links
  // (DirectedLink::Index).
  struct Move {
    std::span<const std::uint32_t> path;
    // The return path; empty: its failures are those of `path`, or nothing is known of it.
    std::span<const std::uint32_t> back;
    std::span<const std::uint32_t> standby;
    std::int64_t share = 0;
  };
  // O(hops squared).
  void Add(const Move& move) { Count(move, move.share); }
  // Takes back an Add with the same argument.
  void Remove(const Move& move) { Count(move, -move.share); }

  // What one failure does to the load of one link.
  struct Shift {
    std::int64_t added = 0;  // by flows whose standby path has the link
    // By flows that lose only their acknowledgements and leave the link, or whose standby path
    // fails, too.
    std::int64_t relieved = 0;

    std::int64_t Units() const { return added - relieved; }
    bool operator==(const Shift&) const = default;
  };

  // The most that a failure on `path` shifts to this directed link, at least 0. O(hops).
  std::int64_t MostOn(std::uint32_t link, std::span<const std::uint32_t> path) const;

  // Calls visit(failure, link, shift) for each failure and each directed link whose load it
  // changes, in no particular order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const auto& [key, shift] : shifts_) {
      visit(FailureOf(static_cast<std::uint32_t>(key >> 32U)), static_cast<std::uint32_t>(key),
            shift);
    }
  }
  std::size_t size() const { return shifts_.size(); }

  // How many failures count for both paths.
  std::size_t CountCommon(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) const;

 private:
  // Calls visit(index) for the failures that count for a path: nodes, and after them links.
  template <typename Visit>
  void ForEachFailure(std::span<const std::uint32_t> path, const Visit& visit) const {
    const auto nodes = static_cast<std::uint32_t>(topology_.nodes().size());
    if (path.size() == 1) {
      const fabric::LinkId link = fabric::DirectedLink::FromIndex(path.front()).link;
      visit(nodes + static_cast<std::uint32_t>(link.Index()));
      return;
    }
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      const fabric::NodeId node = topology_.To(fabric::DirectedLink::FromIndex(path[i]));
      visit(static_cast<std::uint32_t>(node.Index()));
    }
  }
  LinkOrSwitch FailureOf(std::uint32_t index) const;
  bool IsFailureOf(std::uint32_t failure, std::span<const std::uint32_t> path) const;
  void Change(std::uint32_t failure, std::span<const std::uint32_t> links, Shift by);
  void Count(const Move& move, std::int64_t share);
  static std::uint64_t KeyOf(std::uint32_t failure, std::uint32_t link) {
    return std::uint64_t{failure} << 32U | link;
  }

  const fabric::Topology& topology_;
  std::unordered_map<std::uint64_t, Shift> shifts_;  // by KeyOf; none is empty
};

}  // namespace espalier::controller
