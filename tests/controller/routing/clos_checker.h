#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "tests/controller/routing/test_fabric.h"

namespace espalier::controller {

// Recounts an assignment, and searches for a better one, by the topology and its paths alone: knows
// nothing of tiers, labels and bounds. Loads are exact: whole numbers of 1 / scale of the load.
class ClosChecker {
 public:
  explicit ClosChecker(Fabric& fabric) : fabric_(fabric) {
    for (const fabric::Link& link : fabric.topology.links()) {
      if (fabric.topology.IsSwitchToSwitch(*fabric.topology.FindLink(link.id))) {
        scale_ = std::lcm(scale_, link.rate.value);
        fastest_ = std::max(fastest_, link.rate.value);
      }
    }
  }

  // The load of a link that carries so many units (of 1 / kLoadUnit of a flow), comparable.
  std::int64_t LoadOf(std::size_t link, std::int64_t units) const {
    return units * (scale_ / RateOf(link));
  }
  Load ToLoad(std::int64_t load) const {
    // A flow on the fastest link is 1.
    const std::int64_t one = kLoadUnit * (scale_ / fastest_);
    const std::int64_t common = std::gcd(load, one);
    return load == 0 ? Load{} : Load{load / common, one / common};
  }

  // Units by directed link. None if a flow that has a usable path has none here, or an unusable
  // one.
  std::optional<std::vector<std::int64_t>> Recount(const Commodities& flows,
                                                   const Assignment& assignment) const {
    std::vector<std::int64_t> units(2 * fabric_.topology.links().size());
    if (assignment.first.size() != flows.size() + 1) return std::nullopt;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const auto paths = PathsBetween(flows[i]);
      const bool is_routable =
          flows[i].source != flows[i].destination &&
          std::ranges::any_of(paths, [&](const auto& path) { return IsUsable(path); });
      const auto chosen = assignment.PathsOf(i);
      if (chosen.size() != flows[i].subflows) return std::nullopt;
      for (const std::int32_t path : chosen) {
        if (is_routable != (path != kNoPath)) return std::nullopt;
        if (path == kNoPath) continue;
        const auto index = static_cast<std::size_t>(path);
        if (index >= paths.size() || !IsUsable(paths[index])) return std::nullopt;
        for (const auto hop : paths[index].hops) {
          units[hop.Index()] += kLoadUnit / flows[i].subflows;
        }
      }
    }
    return units;
  }

  std::int64_t MaxOf(const std::vector<std::int64_t>& units) const {
    std::int64_t most = 0;
    for (std::size_t link = 0; link < units.size(); ++link) {
      if (units[link] > 0) most = std::max(most, LoadOf(link, units[link]));
    }
    return most;
  }

  // Whether some assignment of whole subflows has all loads below this one; none if the search
  // takes more than so many steps. Exhaustive, but for equal subflows in equal order.
  std::optional<bool> CanBeBelow(const Commodities& flows, std::int64_t load,
                                 std::int64_t steps) const {
    struct Subflow {
      std::int64_t units;
      std::vector<std::vector<std::size_t>> paths;
    };
    std::vector<Subflow> subflows;
    for (const Commodity& flow : flows) {
      if (flow.source == flow.destination) continue;
      Subflow subflow{kLoadUnit / flow.subflows, {}};
      for (const auto& path : PathsBetween(flow)) {
        if (!IsUsable(path)) continue;
        auto& links = subflow.paths.emplace_back();
        for (const auto hop : path.hops) links.push_back(hop.Index());
      }
      if (!subflow.paths.empty()) subflows.insert(subflows.end(), flow.subflows, subflow);
    }
    std::vector<std::int64_t> units(2 * fabric_.topology.links().size());
    const auto place = [&](const auto& self, std::size_t i) -> bool {
      if (--steps < 0) return false;
      if (i == subflows.size()) return true;
      for (const auto& path : subflows[i].paths) {
        bool fits = true;
        for (const std::size_t link : path) {
          units[link] += subflows[i].units;
          fits = fits && LoadOf(link, units[link]) < load;
        }
        if (fits && self(self, i + 1)) return true;
        for (const std::size_t link : path) units[link] -= subflows[i].units;
      }
      return false;
    };
    const bool found = place(place, 0);
    if (steps < 0) return std::nullopt;
    return found;
  }

 private:
  std::int64_t RateOf(std::size_t link) const {
    return fabric_.topology.link(fabric::DirectedLink::FromIndex(link).link).rate.value;
  }
  std::span<const fabric::Path> PathsBetween(const Commodity& flow) const {
    return fabric_.paths.Between(fabric_.view.LeafNode(flow.source),
                                 fabric_.view.LeafNode(flow.destination));
  }
  bool IsUsable(const fabric::Path& path) const { return fabric::IsUsable(fabric_.topology, path); }

  Fabric& fabric_;
  std::int64_t scale_ = 1;
  std::int64_t fastest_ = 1;
};

}  // namespace espalier::controller
