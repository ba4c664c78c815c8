// Ports that take the paths of flows.
#include "controller/placement/ports/port_binder.h"

#include <gtest/gtest.h>

#include "tests/controller/placement/placed_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class PortBinderTest : public Corner {};

TEST_F(PortBinderTest, AMovedFlowKeepsItsPortUntilOneOfItsNewPathIsKnown) {
  only_spine_1_ = true;  // to begin with, no port of host 2 takes the other
  cluster_ = std::make_unique<Cluster>(
      fabric::LeafSpineOptions{.spines = 2, .leaves = 4, .hosts_per_leaf = 1});
  cluster_->hash = [this](int from, int, std::uint16_t port) {
    return from == 2 && only_spine_1_ ? 1 : port % 2;
  };
  cluster_->ConnectAll();
  Open(3, {.id = 1, .to = 0});  // host 0's link from spine 0
  Open(2, {.id = 2, .to = 0});
  ASSERT_EQ(cluster_->AppliedSpine(2, 2, 0), 1);
  const std::uint16_t port = cluster_->host(2).ports.at(2);
  cluster_->host(2).answers_probes = false;
  ASSERT_TRUE(cluster_->ChangeLink("leaf0--spine1", IntentAction::kDrain).has_value());
  cluster_->Settle();
  EXPECT_EQ(cluster_->FlowOf(2, 2).status, FlowStatus::kLearning);
  EXPECT_EQ(cluster_->host(2).ports.at(2), port);
  only_spine_1_ = false;
  cluster_->host(2).answers_probes = true;
  cluster_->Advance(10s);
  EXPECT_EQ(cluster_->FlowOf(2, 2).status, FlowStatus::kRouted);
  EXPECT_EQ(cluster_->AppliedSpine(2, 2, 0), 0);
}

}  // namespace
}  // namespace espalier::controller
