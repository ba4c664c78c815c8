// Steering on a live fabric of two rails: each of eight hosts has two NICs, on leaves of their own,
// and one agent for both.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "deploy/demo/main_job.h"
#include "deploy/demo/measured_run.h"
#include "deploy/lab/link_faults.h"
#include "tests/deploy/demo/live_lab.h"
#include "tests/deploy/demo/tree_run.h"

namespace espalier::demo {
namespace {

constexpr int kSeed = 1;
constexpr const char* kNic = "h0/nic1";
constexpr const char* kNicLink = "h0/nic1--leaf1";

// The addresses from which and to which a plan's edges cross the fabric.
std::set<std::string> NicsOf(const std::vector<PlannedEdge>& plan) {
  std::set<std::string> nics;
  for (const PlannedEdge& edge : plan) {
    if (edge.via.empty()) continue;
    nics.insert(edge.source);
    nics.insert(edge.destination);
  }
  return nics;
}

class RailsTest : public LiveLabTest {
 protected:
  void StartRails() {
    StartLab({.spines = 4,
              .leaves = 4,
              .hosts_per_leaf = 4,
              .rails = 2,
              .link_rate = BitsPerSecond{50'000'000},
              .seed = kSeed});
    if (lab_) StartDaemons();
  }

  void AwaitEvent(const std::string& kind) const {
    const auto recorded = daemons_->AwaitEvent(kind, kNicLink);
    ASSERT_TRUE(recorded.has_value()) << recorded.error().message << Events();
  }

  int CollectivesDone(const std::string& job) const {
    const auto answer = daemons_->Get("/api/v1/forests");
    if (!answer) return 0;
    for (const io::JsonValue& one : answer->Find("forests")->items) {
      if (one.Find("job")->text == job) return std::stoi(one.Find("collectives_done")->text);
    }
    return 0;
  }
  // Lets the link of a NIC die in a run of the job's ranks, which complete by another plan.
  void LoseNicWhileRunning(const std::string& job) const {
    const auto first = AwaitPlan(*daemons_, job, "");
    ASSERT_TRUE(first.has_value()) << first.error().message;
    bool has_died = false;
    const auto run =
        RunRanks(*lab_, ESPALIER_PROGRAMS,
                 {.bytes = kTreeBytes, .calls = 8, .job = job, .on_running = [&] {
                    if (has_died || CollectivesDone(job) < 3) return;
                    has_died = true;
                    ASSERT_TRUE(lab::FailLink(*lab_, kNicLink, lab::LinkEnd::kA).value_or(false));
                  }});
    ASSERT_TRUE(run.has_value()) << run.error().message;
    EXPECT_TRUE(has_died);
    EXPECT_TRUE(run->completed) << Events();
    EXPECT_EQ(run->wrong_sums, 0);
    const auto other = AwaitPlan(*daemons_, job, *first);
    EXPECT_TRUE(other.has_value()) << other.error().message << Events();
  }

  std::string StartJob(const std::string& name, bool offload) const {
    const std::string job = name + (offload ? "-offloaded" : "-inline");
    const auto started = StartTreeJob(*daemons_, *lab_, job, kTreeBytes, offload);
    EXPECT_TRUE(started.has_value()) << started.error().message;
    return job;
  }
  // A job of one rank on each host.
  void ExpectToUseBothNics(bool offload) const {
    const std::string job = StartJob("both", offload);
    const auto plan = ReadPlan(*daemons_, job);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    for (const PlannedEdge& edge : *plan) EXPECT_FALSE(edge.via.empty());
    EXPECT_EQ(NicsOf(*plan).size(), 16U) << Events();
    ExpectRunAsPlanned(*lab_, job, *plan);
    EXPECT_TRUE(StopTreeJob(*daemons_, job).has_value());
  }
  // Another one, which loses the link of kNic, with this address.
  void ExpectToGoOnWithout(const std::string& dead, bool offload) const {
    const std::string job = StartJob("next", offload);
    LoseNicWhileRunning(job);
    const auto plan = ReadPlan(*daemons_, job);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    EXPECT_FALSE(NicsOf(*plan).contains(dead)) << kNic;
    EXPECT_GE(NicsOf(*plan).size(), 8U) << Events();
    ExpectRunAsPlanned(*lab_, job, *plan, dead);
    EXPECT_TRUE(StopTreeJob(*daemons_, job).has_value());
  }

  // Every NIC sends and receives one flow, but for those that would use a NIC without link.
  void RunPermutation(int flows) {
    auto permutation = MakePermutation(lab_->layout());
    ASSERT_TRUE(permutation.has_value()) << permutation.error().message;
    auto& all = permutation->workload.flows;
    if (flows < lab_->layout().NicCount()) {
      std::erase_if(all, [](const traffic::SingleFlow& flow) {
        return flow.source == kNic || flow.destination == kNic;
      });
    }
    ASSERT_EQ(all.size(), static_cast<std::size_t>(flows));
    const auto run = RunMeasured(*lab_, *permutation, kSeed, &*daemons_);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    EXPECT_TRUE(run->completed);
    EXPECT_EQ(run->steered_flows, flows);
    EXPECT_EQ(run->mismatches, 0);
    EXPECT_EQ(run->max_leaf_link_flows, 1) << Events();
  }
};

TEST_F(RailsTest, SteersTheFlowsOfEveryNicAndGoesOnWhenOneDies) {
  StartRails();
  if (!daemons_) return;
  RunPermutation(16);
  const auto inner = lab::FailLink(*lab_, "h0/gpu0--h0/nic0");
  ASSERT_FALSE(inner.has_value());
  EXPECT_EQ(inner.error().code, ErrorCode::kUnsupported) << inner.error().message;
  ASSERT_TRUE(lab::FailLink(*lab_, kNicLink, lab::LinkEnd::kA).value_or(false));
  AwaitEvent("nic_down");
  RunPermutation(14);
  ASSERT_TRUE(lab::RestoreLink(*lab_, kNicLink).value_or(false));
  AwaitEvent("nic_up");
  RunPermutation(16);
}

// No link joins the planes: nothing of one can take a way through the other.
TEST_F(RailsTest, SteersTheFlowsOfSeparatePlanes) {
  StartLab({.spines = 4,
            .leaves = 4,
            .hosts_per_leaf = 2,
            .rails = 2,
            .planes = 2,
            .link_rate = BitsPerSecond{50'000'000},
            .seed = kSeed});
  if (!lab_) return;
  StartDaemons();
  if (!daemons_) return;
  RunPermutation(8);
}

// There is a rank for each GPU, which has a NIC of its own.
TEST_F(RailsTest, TreesUseEveryNic) {
  StartRails();
  if (!daemons_) return;
  for (const bool offload : {false, true}) {
    const std::string job = offload ? "offloaded" : "inline";
    const auto started = StartTreeJob(*daemons_, *lab_, job, kTreeBytes, offload);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    const auto plan = ReadPlan(*daemons_, job);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    std::set<std::string> sources;
    for (const PlannedEdge& edge : *plan) {
      if (!edge.via.empty()) sources.insert(edge.source);
    }
    EXPECT_EQ(sources.size(), static_cast<std::size_t>(lab_->layout().NicCount())) << job;
    ExpectRunAsPlanned(*lab_, job, *plan);
    EXPECT_TRUE(StopTreeJob(*daemons_, job).has_value());
  }
}

// One rank on each of eight hosts, whose trees use both NICs. Each NIC has a leaf of its own, so
// that every edge crosses the fabric, and no link joins the rails. If a NIC dies, the next plan
// does without it.
TEST_F(RailsTest, TreesOfOneRankUseBothNicsOfItsHost) {
  StartLab({.spines = 4,
            .leaves = 16,
            .hosts_per_leaf = 1,
            .rails = 2,
            .planes = 2,
            .gpus = 1,
            .link_rate = BitsPerSecond{50'000'000},
            .seed = kSeed});
  if (!lab_) return;
  StartDaemons();
  if (!daemons_) return;
  for (const bool offload : {false, true}) ExpectToUseBothNics(offload);
  for (const bool offload : {false, true}) {
    ExpectToGoOnWithout(lab_->layout().NicAddress(1), offload);
    ASSERT_TRUE(lab::RestoreLink(*lab_, kNicLink).value_or(false));
    AwaitEvent("nic_up");
  }
}

}  // namespace
}  // namespace espalier::demo
