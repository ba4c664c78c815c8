// Steering on a live fabric whose hosts have one address and two uplinks, in one plane of spines:
// counters of the switches are the judge.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "deploy/demo/main_job.h"
#include "deploy/lab/ground_truth.h"
#include "deploy/lab/link_faults.h"
#include "deploy/lab/run_traffic.h"
#include "tests/deploy/demo/live_lab.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

constexpr int kSeed = 1;

class UplinksTest : public LiveLabTest {
 protected:
  void StartPairs() {
    StartLab({.spines = 2,
              .leaves = 4,
              .hosts_per_leaf = 4,
              .uplinks = 2,
              .link_rate = BitsPerSecond{50'000'000},
              .seed = kSeed});
    if (lab_) StartDaemons();
  }

  // Bytes that each direction of a link has carried, by "LINK in" or "LINK out" as its upper node
  // sees it.
  std::map<std::string, std::int64_t> Bytes() const {
    std::map<std::string, std::int64_t> bytes;
    const auto counts = lab::ReadInterfaceCounts(*lab_);
    EXPECT_TRUE(counts.has_value());
    if (!counts) return bytes;
    for (const lab::InterfaceCount& count : *counts) {
      if (!count.node.starts_with("spine") && !count.link.starts_with("h")) continue;
      bytes[count.link + " in"] = count.in_bytes;
      bytes[count.link + " out"] = count.out_bytes;
    }
    return bytes;
  }
};

// Eight flows over eight links between a pair of leaves and the spines, and two uplinks a host: no
// link carries two.
TEST_F(UplinksTest, SteersAPermutationApart) {
  StartPairs();
  if (!daemons_) return;
  const auto permutation = MakePermutation(lab_->layout());
  ASSERT_TRUE(permutation.has_value());
  ASSERT_EQ(permutation->workload.flows.size(), 8U);
  const auto before = Bytes();
  lab::TrafficOptions options{.seed = kSeed, .use_agents = true};
  const auto result = lab::RunTraffic(*lab_, permutation->workload, options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->completed);
  EXPECT_GT(result->steered_bytes, 0);
  int used = 0;
  for (const auto& [direction, bytes] : Bytes()) {
    const std::int64_t carried = bytes - before.at(direction);
    // The first segments and the acknowledgements may share a link with a whole flow.
    EXPECT_LT(carried, permutation->flow_bytes * 3 / 2) << direction << Events();
    used += carried > permutation->flow_bytes / 2 ? 1 : 0;
  }
  // Each flow is on an uplink, two links between switches, and an uplink.
  EXPECT_EQ(used, 4 * 8) << Events();
}

TEST_F(UplinksTest, LeavesAnUplinkThatFails) {
  StartPairs();
  if (!daemons_) return;
  auto permutation = MakePermutation(lab_->layout());
  ASSERT_TRUE(permutation.has_value());
  for (traffic::SingleFlow& flow : permutation->workload.flows) {
    flow.bytes = 4 * permutation->flow_bytes;
    flow.protocol = traffic::Protocol::kUdp;
    flow.rate = BitsPerSecond{20'000'000};
  }
  lab::TrafficOptions options{.seed = kSeed, .use_agents = true};
  options.time_limit = 60s;
  bool is_failed = false;
  std::map<std::string, std::int64_t> later;
  options.on_running = [&](std::chrono::nanoseconds passed) {
    if (passed > 1s && !std::exchange(is_failed, true)) {
      EXPECT_TRUE(lab::FailLink(*lab_, "h0--leaf0", lab::LinkEnd::kA).value());
      EXPECT_TRUE(daemons_->Post("/api/v1/links/fail?id=h0--leaf0&reason=test").has_value());
    }
    if (passed > 2s && later.empty()) later = Bytes();
  };
  const auto result = lab::RunTraffic(*lab_, permutation->workload, options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  ASSERT_FALSE(later.empty()) << "the traffic ended too early";
  const auto last = Bytes();
  EXPECT_EQ(last.at("h0--leaf0 in"), later.at("h0--leaf0 in"));
  EXPECT_EQ(last.at("h0--leaf0 out"), later.at("h0--leaf0 out"));
  const std::int64_t flow_bytes = permutation->flow_bytes;
  EXPECT_GT(last.at("h0--leaf1 in") - later.at("h0--leaf1 in"), flow_bytes) << Events();
  EXPECT_GT(last.at("h0--leaf1 out") - later.at("h0--leaf1 out"), flow_bytes) << Events();
  // After the first second, nothing is lost: 4 times the bytes at 20 Mbit/s.
  for (const lab::FlowOutcome& flow : result->flows) {
    EXPECT_GT(flow.received.bytes, flow_bytes * 3) << flow.plan.id << Events();
  }
}

}  // namespace
}  // namespace espalier::demo
