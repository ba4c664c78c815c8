#include "controller/offline/damage/path_rotation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "controller/offline/damage/damaged_fabric.h"
#include "controller/offline/damage/steered_sets.h"

namespace espalier::offline {
namespace {

using fabric::Topology;

// A permutation of the hosts of leaves with as many uplinks, one of which is dead or slow.
class PathRotationTest : public testing::Test {
 protected:
  void Open(int leaves, int hosts_per_leaf, Damage damage) {
    const Topology whole = *Topology::Build(*fabric::BuildLeafSpine(
        {.spines = hosts_per_leaf, .leaves = leaves, .hosts_per_leaf = hosts_per_leaf}));
    topology_ = BuildDamaged(whole, *whole.FindLink("leaf0--spine0"), damage);
    workload_ = *Workload::Build(*topology_, *MakePermutation(*topology_, 1));
    steered_ = std::move(*SteeredSets::Make(*topology_, *workload_, {}));
    std::vector<std::int32_t> paths;
    flows_ = steered_->Commodities();
    for (std::uint32_t f = 0; f < flows_.size(); ++f) paths.push_back(steered_->PathOf(f));
    rotation_ = std::make_unique<PathRotation>(steered_->view(), flows_, paths);
    sent_.assign(flows_.size(), 0);
  }

  // By directed link: the flows on it.
  std::map<std::uint32_t, std::vector<std::uint32_t>> FlowsByLink() const {
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_link;
    for (std::uint32_t f = 0; f < flows_.size(); ++f) {
      std::vector<std::uint32_t> links;
      if (rotation_->PathOf(f) == controller::kNoPath) continue;
      steered_->view().AppendHops(flows_[f].source, flows_[f].destination, rotation_->PathOf(f),
                                  links);
      for (const std::uint32_t link : links) by_link[link].push_back(f);
    }
    return by_link;
  }
  double RateOn(std::uint32_t link, std::size_t flows) const {
    return static_cast<double>(steered_->view().capacities()[link]) /
           static_cast<double>(steered_->view().unit_bps()) / static_cast<double>(flows);
  }
  // Lets every flow send for a period, at the share of its most loaded link.
  void Send() {
    std::vector<double> rates(flows_.size(), 1);
    for (const auto& [link, on_link] : FlowsByLink()) {
      for (const std::uint32_t f : on_link) {
        rates[f] = std::min(rates[f], RateOn(link, on_link.size()));
      }
    }
    for (std::uint32_t f = 0; f < flows_.size(); ++f) sent_[f] += rates[f];
  }
  // Links whose flows are slower than their NICs.
  std::size_t CountShared() const {
    std::size_t shared = 0;
    for (const auto& [link, on_link] : FlowsByLink()) shared += RateOn(link, on_link.size()) < 1;
    return shared;
  }

  std::optional<Topology> topology_;
  std::optional<Workload> workload_;
  std::unique_ptr<SteeredSets> steered_;
  std::vector<controller::Commodity> flows_;
  std::unique_ptr<PathRotation> rotation_;
  std::vector<double> sent_;
};

TEST_F(PathRotationTest, EveryFlowOfTheLeafHasItsFairPart) {
  for (const Damage damage : {Damage::kDead, Damage::kHalfRate}) {
    constexpr int kHosts = 8;
    Open(4, kHosts, damage);
    const std::size_t shared = CountShared();
    EXPECT_EQ(shared, 2U);  // one link up, one link down
    constexpr int kPeriods = 64;
    for (int period = 0; period < kPeriods; ++period) {
      Send();
      rotation_->Exchange(sent_);
      ASSERT_LE(CountShared(), shared) << "period " << period;
    }
    const double left = damage == Damage::kDead ? kHosts - 1 : kHosts - 0.5;
    double least = kPeriods;
    for (const double sent : sent_) least = std::min(least, sent);
    EXPECT_GE(least, 0.9 * kPeriods * left / kHosts);  // without exchanges: 0.5 * kPeriods
    EXPECT_LE(least, kPeriods * left / kHosts);        // no flow can have more than all have
  }
}

TEST_F(PathRotationTest, ReportsWhatItChanges) {
  Open(4, 8, Damage::kDead);
  Send();
  std::vector<std::int32_t> before;
  for (std::uint32_t f = 0; f < flows_.size(); ++f) before.push_back(rotation_->PathOf(f));
  const auto changed = rotation_->Exchange(sent_);
  EXPECT_FALSE(changed.empty());
  for (std::uint32_t f = 0; f < flows_.size(); ++f) {
    EXPECT_EQ(std::ranges::binary_search(changed, f), rotation_->PathOf(f) != before[f]);
  }
}

TEST_F(PathRotationTest, FlowFurthestBehindLeavesTheSharedLinks) {
  Open(4, 8, Damage::kDead);
  std::set<std::uint32_t> behind;
  sent_.assign(flows_.size(), 10);
  for (const auto& [link, on_link] : FlowsByLink()) {
    if (on_link.size() < 2) continue;
    sent_[on_link.front()] = 5;
    sent_[on_link.back()] = 1;
    behind.insert(on_link.back());
  }
  EXPECT_EQ(behind.size(), 2U);
  rotation_->Exchange(sent_);
  for (const auto& [link, on_link] : FlowsByLink()) {
    if (on_link.size() < 2) continue;
    for (const std::uint32_t f : on_link) EXPECT_FALSE(behind.contains(f)) << f;
  }
}

TEST_F(PathRotationTest, ChangesNothingWhereNothingIsShared) {
  Open(4, 8, Damage::kNone);
  Send();
  EXPECT_TRUE(rotation_->Exchange(sent_).empty());
}

TEST_F(PathRotationTest, ChangesNothingIfNobodyIsAhead) {
  Open(4, 8, Damage::kDead);
  EXPECT_TRUE(rotation_->Exchange(sent_).empty());
}

TEST_F(PathRotationTest, FlowThatHasEndedSharesNothing) {
  Open(4, 8, Damage::kDead);
  Send();
  for (const auto& [link, on_link] : FlowsByLink()) {
    if (on_link.size() > 1) rotation_->End(on_link.front());
  }
  EXPECT_EQ(CountShared(), 0U);
  EXPECT_TRUE(rotation_->Exchange(sent_).empty());
}

}  // namespace
}  // namespace espalier::offline
