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
#include "controller/routing/occupancy/subflow_table.h"
#include "tests/controller/routing/test_fabric.h"

namespace espalier::controller {

// The two tables of a fabric, and checks that compute from the routes alone what they must hold.
class Tables {
 public:
  explicit Tables(std::unique_ptr<Fabric> fabric, BytesInFlight bytes_in_flight = nullptr)
      : fabric_(std::move(fabric)),
        subflows_(fabric_->view, std::move(bytes_in_flight)),
        links_(fabric_->view, subflows_) {
    links_.Clear();
  }

  Fabric& fabric() { return *fabric_; }
  SubflowTable& subflows() { return subflows_; }
  LinkTable& links() { return links_; }
  std::uint32_t leaf_count() const { return fabric_->view.leaf_count(); }
  const std::set<SubflowId>& all() const { return all_; }
  SubflowId AnyOf(std::mt19937& random) const {
    return *std::next(all_.begin(), static_cast<long>(random() % all_.size()));
  }

  SubflowId Add(std::uint32_t source, std::uint32_t destination, std::int64_t share = kLoadUnit) {
    const SubflowId subflow = subflows_.Add(source, destination, share, false);
    EXPECT_TRUE(all_.insert(subflow).second);
    return subflow;
  }
  SubflowId AddOn(std::uint32_t source, std::uint32_t destination, std::int32_t route,
                  std::int64_t share = kLoadUnit) {
    const SubflowId subflow = Add(source, destination, share);
    links_.MoveTo(subflow, route);
    return subflow;
  }
  void Remove(SubflowId subflow) {
    links_.MoveTo(subflow, kNoPath);
    subflows_.Remove(subflow);
    all_.erase(subflow);
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
  // Whether the path exists, usable or not.
  bool Exists(SubflowId subflow, std::int32_t route) const {
    const PathLinks links = subflows_.LinksOf(subflows_[subflow], route);
    return std::find(links.begin(), links.end(), kNoLink) == links.end();
  }

  std::vector<std::vector<SubflowId>> SubflowsByLink() const {
    std::vector<std::vector<SubflowId>> on(links_.size());
    for (const SubflowId subflow : all_) {
      const SubflowState& state = subflows_[subflow];
      if (state.route < 0) continue;
      for (const std::uint32_t link : subflows_.LinksOf(state, state.route))
        on[link].push_back(subflow);
    }
    return on;
  }
  std::vector<std::int32_t> Routes() const {
    std::vector<std::int32_t> routes;
    for (const SubflowId subflow : all_) routes.push_back(subflows_[subflow].route);
    return routes;
  }
  void ExpectConsistent() {
    const auto on = SubflowsByLink();
    for (std::uint32_t link = 0; link < on.size(); ++link) {
      std::int64_t load = 0;
      for (const SubflowId subflow : on[link]) load += subflows_[subflow].share;
      const auto found = links_.SubflowsOn(link);
      ASSERT_EQ(std::vector(found.begin(), found.end()), on[link]) << "link " << link;
      ASSERT_EQ(links_.LoadOf(link), load) << "link " << link;
      if (!fabric_->view.clos() || links_.EndOf(link).leaf == LeafLink::kNoLeaf) continue;
      const LeafLink& end = links_.EndOf(link);
      const std::uint64_t idle = links_.idle().At(end.leaf, end.sends, end.spine / 64);
      const bool is_idle = load == 0 && fabric_->view.capacities()[link] > 0;
      ASSERT_EQ((idle >> (end.spine % 64) & 1) != 0, is_idle) << "link " << link;
      const bool is_sole = on[link].size() == 1 && load == kLoadUnit;
      ASSERT_EQ(links_.PeerAt(end) < SingleFlowLinks::kNotTracked, is_sole) << "link " << link;
      if (!is_sole) continue;
      const SubflowState& state = subflows_[on[link].front()];
      ASSERT_EQ(links_.SingleFlowAt(end), on[link].front());
      ASSERT_EQ(links_.PeerAt(end), end.sends ? state.destination : state.source);
    }
  }
  // Checks that no usable link on the route of a moved subflow is above its limit.
  void ExpectWithinLimits(std::span<const SubflowMove> moves) {
    for (const SubflowMove& move : moves) {
      ASSERT_EQ(subflows_[move.subflow].route, move.to);
      ASSERT_TRUE(subflows_.IsUsable(subflows_[move.subflow], move.to));
      for (const std::uint32_t link : subflows_.LinksOf(subflows_[move.subflow], move.to)) {
        ASSERT_FALSE(links_.IsAboveLimit(link)) << "link " << link;
      }
    }
  }

 private:
  std::unique_ptr<Fabric> fabric_;
  SubflowTable subflows_;
  LinkTable links_;
  std::set<SubflowId> all_;
};

}  // namespace espalier::controller
