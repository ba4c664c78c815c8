#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "controller/routing/occupancy/link_table.h"
#include "controller/routing/occupancy/way_table.h"
#include "tests/controller/routing/test_fabric.h"

namespace espalier::controller {

// The two tables of a fabric, and what they must agree on, reckoned slowly from the routes alone.
class Tables {
 public:
  explicit Tables(std::unique_ptr<Fabric> fabric, BytesInFlight bytes_in_flight = nullptr)
      : fabric_(std::move(fabric)),
        ways_(fabric_->view, std::move(bytes_in_flight)),
        links_(fabric_->view, ways_) {
    links_.Clear();
  }

  Fabric& fabric() { return *fabric_; }
  WayTable& ways() { return ways_; }
  LinkTable& links() { return links_; }
  const std::set<WayId>& all() const { return all_; }
  WayId AnyOf(std::mt19937& random) const {
    return *std::next(all_.begin(), static_cast<long>(random() % all_.size()));
  }

  WayId Add(std::uint32_t source, std::uint32_t destination, std::int64_t share = kLoadUnit) {
    const WayId way = ways_.Add(source, destination, share, false);
    EXPECT_TRUE(all_.insert(way).second);
    return way;
  }
  WayId AddOn(std::uint32_t source, std::uint32_t destination, std::int32_t route,
              std::int64_t share = kLoadUnit) {
    const WayId way = Add(source, destination, share);
    links_.MoveTo(way, route);
    return way;
  }
  void Remove(WayId way) {
    links_.MoveTo(way, kNoPath);
    ways_.Remove(way);
    all_.erase(way);
  }
  void SetAllLimits(std::int64_t units) {
    for (std::uint32_t link = 0; link < links_.size(); ++link) links_.SetLimit(link, units);
  }
  // Between two different leaves.
  std::pair<std::uint32_t, std::uint32_t> RandomPair(std::mt19937& random) const {
    const std::uint32_t leaves = fabric_->view.leaf_count();
    const auto source = static_cast<std::uint32_t>(random() % leaves);
    return {source, (source + 1 + static_cast<std::uint32_t>(random() % (leaves - 1))) % leaves};
  }
  // It may go there: there is such a path, whether it is usable or not.
  bool Exists(WayId way, std::int32_t route) const {
    const PathLinks links = ways_.LinksOf(ways_[way], route);
    return std::find(links.begin(), links.end(), kNoLink) == links.end();
  }

  std::vector<std::vector<WayId>> WaysByLink() const {
    std::vector<std::vector<WayId>> on(links_.size());
    for (const WayId way : all_) {
      const WayState& state = ways_[way];
      if (state.route < 0) continue;
      for (const std::uint32_t link : ways_.LinksOf(state, state.route)) on[link].push_back(way);
    }
    return on;
  }
  std::vector<std::int32_t> Routes() const {
    std::vector<std::int32_t> routes;
    for (const WayId way : all_) routes.push_back(ways_[way].route);
    return routes;
  }
  void ExpectConsistent() {
    const auto on = WaysByLink();
    for (std::uint32_t link = 0; link < on.size(); ++link) {
      std::int64_t load = 0;
      for (const WayId way : on[link]) load += ways_[way].share;
      const auto found = links_.WaysOn(link);
      ASSERT_EQ(std::vector(found.begin(), found.end()), on[link]) << "link " << link;
      ASSERT_EQ(links_.LoadOf(link), load) << "link " << link;
      if (!fabric_->view.clos() || links_.EndOf(link).leaf == ClosEnd::kNoLeaf) continue;
      const ClosEnd& end = links_.EndOf(link);
      const std::uint64_t idle = links_.idle().At(end.leaf, end.sends, end.spine / 64);
      const bool is_idle = load == 0 && fabric_->view.capacities()[link] > 0;
      ASSERT_EQ((idle >> (end.spine % 64) & 1) != 0, is_idle) << "link " << link;
      const bool is_sole = on[link].size() == 1 && load == kLoadUnit;
      ASSERT_EQ(links_.PeerAt(end) < SoleWays::kNotHere, is_sole) << "link " << link;
      if (!is_sole) continue;
      const WayState& state = ways_[on[link].front()];
      ASSERT_EQ(links_.SoleWayAt(end), on[link].front());
      ASSERT_EQ(links_.PeerAt(end), end.sends ? state.destination : state.source);
    }
  }
  // No usable link on the route of a way that was moved is above its limit.
  void ExpectWithinLimits(std::span<const WayMove> moves) {
    for (const WayMove& move : moves) {
      ASSERT_EQ(ways_[move.way].route, move.to);
      ASSERT_TRUE(ways_.IsUsable(ways_[move.way], move.to));
      for (const std::uint32_t link : ways_.LinksOf(ways_[move.way], move.to)) {
        ASSERT_FALSE(links_.IsAboveLimit(link)) << "link " << link;
      }
    }
  }

 private:
  std::unique_ptr<Fabric> fabric_;
  WayTable ways_;
  LinkTable links_;
  std::set<WayId> all_;
};

}  // namespace espalier::controller
