// Paths of new flows, and the flows that move for them.
#include "controller/placement/arrivals/arrival_placer.h"

#include <gtest/gtest.h>

#include "tests/controller/placement/placed_flows.h"

namespace espalier::controller {
namespace {

constexpr const char* kMoved = "espalier_controller_flows_moved_total";

class ArrivalPlacerTest : public Corner {};

TEST_F(ArrivalPlacerTest, AnArrivalMovesAFlowInProgressIfThatKeepsLinksEven) {
  Build({});
  const std::size_t pushes = cluster_->host(0).pushes.size() + cluster_->host(2).pushes.size();
  Open(0, {.id = 2, .to = 3});
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  EXPECT_EQ(cluster_->CounterValue(kMoved), 1);
  EXPECT_EQ(cluster_->host(0).pushes.size() + cluster_->host(2).pushes.size(), pushes + 2);
  const int spine_of_new = cluster_->AppliedSpine(0, 2, 3);
  EXPECT_NE(cluster_->AppliedSpine(0, 1, 1), spine_of_new);
  EXPECT_NE(cluster_->AppliedSpine(2, 2, 3), spine_of_new);
}

TEST_F(ArrivalPlacerTest, AnArrivalMovesTheFlowWithFewerBytesInFlight) {
  const auto in_flight = [&](int host, std::uint64_t flow, std::uint64_t bytes) {
    wire::FlowReport report;
    report.progress.push_back(
        {.id = wire::LocalFlowId(flow), .remaining_bytes = 1 << 30, .outstanding_bytes = bytes});
    cluster_->Report(host, std::move(report));
    cluster_->Settle();
  };
  for (const bool first_has_fewer : {true, false}) {
    Build({.moved_bytes_per_start = 100});
    in_flight(0, 1, first_has_fewer ? 10 : 20);
    in_flight(2, 2, first_has_fewer ? 20 : 10);
    Open(0, {.id = 2, .to = 3});
    EXPECT_EQ(MaxLoad(), (Load{1, 1}));
    EXPECT_EQ(cluster_->AppliedSpine(0, 1, 1), first_has_fewer ? 1 : 0);
    EXPECT_EQ(cluster_->AppliedSpine(2, 2, 3), first_has_fewer ? 1 : 0);
  }
  Build({.moved_bytes_per_start = 100});
  in_flight(0, 1, 101);
  in_flight(2, 2, 101);
  Open(0, {.id = 2, .to = 3});
  EXPECT_EQ(MaxLoad(), (Load{2, 1}));
  EXPECT_EQ(cluster_->CounterValue(kMoved), 0);
}

TEST_F(ArrivalPlacerTest, TheNextArrivalRelievesLinksThatDeparturesLeftUneven) {
  for (const std::size_t moves : {0U, 1U}) {
    Build({.moves_per_start = moves});
    for (const std::uint64_t id : {2U, 3U, 4U}) Open(0, {.id = id, .to = 1});
    for (const std::uint64_t id : {2U, 3U, 4U}) {
      if (cluster_->AppliedSpine(0, id, 1) == 1) cluster_->End(0, id);
    }
    cluster_->Settle();
    EXPECT_EQ(MaxLoad(), (Load{2, 1})) << "two of host 0 on one spine";
    Open(2, {.id = 9, .to = 3});
    EXPECT_EQ(MaxLoad(), (Load{moves == 0 ? 2 : 1, 1}));
    EXPECT_EQ(cluster_->CounterValue(kMoved), static_cast<std::int64_t>(moves));
  }
}

TEST_F(ArrivalPlacerTest, NoFlowInProgressMovesIfTheOperatorAllowsNone) {
  for (const auto& options : {ControllerOptions{.moves_per_start = 0},
                              ControllerOptions{.algorithm = Algorithm::kGreedy}}) {
    Build(options);
    Open(0, {.id = 2, .to = 3});
    EXPECT_EQ(MaxLoad(), (Load{2, 1}));
    EXPECT_EQ(cluster_->CounterValue(kMoved), 0);
    EXPECT_EQ(cluster_->AppliedSpine(2, 2, 3), 1);
    EXPECT_EQ(cluster_->AppliedSpine(0, 1, 1), 0);
  }
}

}  // namespace
}  // namespace espalier::controller
