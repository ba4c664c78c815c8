// Flows that are split over two paths on a live fabric, and the rate limits of their hosts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <utility>

#include "common/os/command.h"
#include "deploy/lab/ground_truth.h"
#include "deploy/lab/link_faults.h"
#include "deploy/lab/run_traffic.h"
#include "tests/deploy/demo/live_lab.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

// So many hosts under a leaf, each of which sends to the host at its position under the other leaf.
traffic::Workload FlowsOfALeaf(int hosts, int paths, std::int64_t bytes) {
  traffic::Workload workload;
  workload.segment_bytes = 100'000;
  for (int i = 0; i < hosts; ++i) {
    workload.flows.push_back({.id = fmt::format("f{}", i),
                              .source = fmt::format("h{}", i),
                              .destination = fmt::format("h{}", hosts + i),
                              .bytes = bytes,
                              .paths = paths});
  }
  return workload;
}

// Three flows over two uplinks.
traffic::Workload ThreeFlows(int paths) { return FlowsOfALeaf(3, paths, 12'000'000); }

class SplitTest : public LiveLabTest {
 protected:
  static constexpr std::int64_t kLinkBps = 50'000'000;

  void SetUp() override {
    StartLab({.spines = 2, .leaves = 2, .hosts_per_leaf = 3, .link_rate = BitsPerSecond{kLinkBps}});
  }

  // Waits until `ready` returns a value for the controller's status; none after half a minute.
  std::optional<io::JsonValue> AwaitStatus(const std::function<bool(const io::JsonValue&)>& ready) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (std::chrono::steady_clock::now() < deadline) {
      auto status = daemons_->Get("/api/v1/status");
      if (status && ready(*status)) return std::move(*status);
    }
    return std::nullopt;
  }

  // The kernel's pacing limits of h0's connections to port 4791 of others, in bits per second.
  std::vector<double> PacingLimits() const {
    auto command = lab_->MakeCommand("h0", {"ss", "-tinH", "dport", "=", ":4791"});
    const auto output = RunOrFail(command.value());
    EXPECT_TRUE(output.has_value()) << output.error().message;
    std::vector<double> limits;
    const std::regex limit("pacing_rate [0-9]+bps/([0-9]+)bps");
    for (std::sregex_iterator at(output->begin(), output->end(), limit), end; at != end; ++at) {
      limits.push_back(std::stod((*at)[1]));
    }
    return limits;
  }

  // The bytes of a flow that each spine counted.
  template <typename Flow>
  std::map<std::string, double> BytesOf(const Flow& plan,
                                        const std::vector<lab::FlowCount>& counts) const {
    std::map<std::string, double> bytes;
    const auto address = [&](const std::string& host) {
      return lab_->topology().node(*lab_->topology().FindNode(host)).addresses.front();
    };
    for (const lab::FlowCount& count : counts) {
      if (count.source != address(plan.source) || count.destination != address(plan.destination)) {
        continue;
      }
      bytes[count.spine] += static_cast<double>(count.bytes);
    }
    return bytes;
  }
  static double SumOf(const std::map<std::string, double>& bytes) {
    double sum = 0;
    for (const auto& [spine, part] : bytes) sum += part;
    return sum;
  }
  // The fraction of a flow's bytes that each spine counted.
  template <typename Flow>
  std::map<std::string, double> SharesOf(const Flow& plan,
                                         const std::vector<lab::FlowCount>& counts) const {
    std::map<std::string, double> shares = BytesOf(plan, counts);
    const double sum = SumOf(shares);
    for (auto& [spine, share] : shares) share /= sum;
    return shares;
  }
};

TEST_F(SplitTest, TwoPathsAFlowLoadBothUplinksEvenly) {
  StartDaemons("");
  for (const int paths : {1, 2}) {
    const auto before = lab::ReadFlowCounts(*lab_);
    ASSERT_TRUE(before.has_value());
    std::optional<io::JsonValue> status;
    lab::TrafficOptions options{.use_agents = true, .time_limit = 120s};
    options.on_running = [&](std::chrono::nanoseconds) {
      if (status) return;
      status = AwaitStatus([](const io::JsonValue& now) {
        return now.Find("flows_by_status")->Find("ROUTED")->text == "3";
      });
      ASSERT_TRUE(status.has_value());
    };
    const auto result = lab::RunTraffic(*lab_, ThreeFlows(paths), options);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    EXPECT_TRUE(result->completed);
    ASSERT_TRUE(status.has_value());
    EXPECT_EQ(status->Find("max_load")->text, paths == 1 ? "2" : "3/2");
    EXPECT_TRUE(status->Find("optimal")->boolean);
    const auto counts = lab::Difference(*before, *lab::ReadFlowCounts(*lab_));
    // (The division of a link among three TCP connections is not checked.)
    std::map<std::string, double> of_all;
    for (const lab::FlowOutcome& flow : result->flows) {
      EXPECT_TRUE(flow.IsWhole()) << flow.plan.id;
      const auto shares = SharesOf(flow.plan, counts);
      if (paths == 1) continue;
      ASSERT_EQ(shares.size(), 2U) << flow.plan.id;
      for (const auto& [spine, share] : shares) {
        EXPECT_GT(share, 0.05) << flow.plan.id << spine;
        of_all[spine] += share / static_cast<double>(result->flows.size());
      }
    }
    for (const auto& [spine, share] : of_all) EXPECT_GT(share, 0.4) << spine;
    fmt::print("3 flows of 12 MB over 2 spines of 50 Mbit/s, {} path(s) each: slowest {:.2f} s\n",
               paths, result->SlowestFlowSeconds());
  }
}

// A load as the API writes it, such as "3/2".
double ValueOf(const std::string& load) {
  const std::size_t slash = load.find('/');
  const double value = std::stod(load);
  return slash == std::string::npos ? value : value / std::stod(load.substr(slash + 1));
}

// Four flows of a leaf over three spines: equal parts put 3/2 on a link, unequal ones 4/3. The
// flows last until the spines have counted enough of them, however slow this machine is.
class UnevenSplitTest : public SplitTest {
 protected:
  using Shares = std::map<std::string, double>;  // by spine

  void SetUp() override {
    StartLab({.spines = 4, .leaves = 2, .hosts_per_leaf = 4, .link_rate = BitsPerSecond{kLinkBps}});
  }

  static bool AreSettled(const io::JsonValue& status) {
    return status.Find("unacknowledged_flows")->text == "0" &&
           status.Find("flows_by_status")->Find("ROUTED")->text == "4";
  }

  // By source, the parts of its flow that the controller gives to spines.
  std::map<std::string, Shares> PlannedShares() const {
    std::map<std::string, Shares> planned;
    const auto answer = daemons_->Get("/api/v1/flows");
    if (!answer) return planned;
    for (const io::JsonValue& flow : answer->Find("flows")->items) {
      for (const io::JsonValue& path : flow.Find("paths")->items) {
        planned[flow.Find("source")->text][path.Find("via")->text] +=
            std::stod(path.Find("share")->text);
      }
    }
    return planned;
  }

  // Starts four flows of so many subflows, calls `prepare` once they run, and then waits until the
  // spines have counted 20 MB of each. Returns, by source, the parts of these that spines counted.
  std::map<std::string, Shares> CountedShares(int paths, const std::function<void()>& prepare) {
    const traffic::Workload workload = FlowsOfALeaf(4, paths, 4'000'000'000);
    std::map<std::string, Shares> counted;
    bool is_over = false;
    lab::TrafficOptions options{.use_agents = true, .time_limit = 300s};
    options.is_over = [&] { return is_over; };
    options.on_running = [&](std::chrono::nanoseconds) {
      if (std::exchange(is_over, true)) return;
      prepare();
      if (HasFatalFailure()) return;
      counted = AwaitBytes(workload, 20'000'000);
    };
    const auto result = lab::RunTraffic(*lab_, workload, options);
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return counted;
  }

 private:
  std::map<std::string, Shares> AwaitBytes(const traffic::Workload& workload, double bytes) const {
    std::map<std::string, Shares> shares;
    const auto before = lab::ReadFlowCounts(*lab_);
    const auto deadline = std::chrono::steady_clock::now() + 180s;
    while (before && shares.empty() && std::chrono::steady_clock::now() < deadline) {
      const auto after = lab::ReadFlowCounts(*lab_);
      if (!after) continue;
      const auto counts = lab::Difference(*before, *after);
      const bool is_enough = std::ranges::all_of(
          workload.flows, [&](const auto& flow) { return SumOf(BytesOf(flow, counts)) >= bytes; });
      if (!is_enough) continue;
      for (const auto& flow : workload.flows) shares[flow.source] = SharesOf(flow, counts);
    }
    EXPECT_FALSE(shares.empty()) << "the spines have not counted enough bytes";
    return shares;
  }
};

TEST_F(UnevenSplitTest, UnequalPartsLoadWhatASpineDownLeavesEvenly) {
  StartDaemons("balance_splits: false\n");
  ASSERT_TRUE(daemons_->Post("/api/v1/nodes/fail?id=spine0").has_value());
  std::map<std::string, Shares> planned;
  const auto counted = CountedShares(/*paths=*/2, [&] {
    ASSERT_TRUE(AwaitStatus(AreSettled));
    ASSERT_TRUE(daemons_->Post("/api/v1/recompute").has_value());
    const auto divided = AwaitStatus([](const io::JsonValue& now) {
      return now.Find("max_load")->text == "4/3" && AreSettled(now);
    });
    ASSERT_TRUE(divided.has_value());
    EXPECT_TRUE(divided->Find("optimal")->boolean);
    planned = PlannedShares();
  });
  ASSERT_EQ(counted.size(), 4U);
  int divided = 0;
  for (const auto& [source, shares] : counted) {
    const Shares& plan = planned[source];
    for (const auto& [spine, share] : shares) {
      const auto found = plan.find(spine);
      // Segments that had begun on an old path end there.
      EXPECT_NEAR(share, found == plan.end() ? 0 : found->second, 0.1) << source << spine;
    }
    divided += plan.size() == 2 ? 1 : 0;
    for (const auto& [spine, share] : plan) {
      EXPECT_TRUE(std::abs(share - 1) < 0.01 || std::abs(3 * share - std::round(3 * share)) < 0.01);
    }
  }
  EXPECT_EQ(divided, 2) << "the fewest flows that have to take two paths";
}

// Nobody asks for a recompute: the controller does it by itself when the spine has failed.
TEST_F(UnevenSplitTest, PartsAreMadeUnequalAfterASpineHasFailed) {
  StartDaemons("");
  const auto counted = CountedShares(/*paths=*/4, [&] {
    ASSERT_TRUE(AwaitStatus(AreSettled));
    ASSERT_TRUE(daemons_->Post("/api/v1/nodes/fail?id=spine0").has_value());
    // Equal parts, quarters, put 3/2 on one of three links.
    ASSERT_TRUE(AwaitStatus([](const io::JsonValue& now) {
      return AreSettled(now) && ValueOf(now.Find("max_load")->text) < 1.37;
    }));
  });
  ASSERT_EQ(counted.size(), 4U);
  Shares of_all;
  for (const auto& [source, shares] : counted) {
    for (const auto& [spine, share] : shares) of_all[spine] += share / 4;
  }
  for (const auto& [spine, share] : of_all) EXPECT_LT(share, 0.37) << spine;
  // Segments that had begun on an old path end there.
  EXPECT_LT(of_all["spine0"], 0.05);
}

// Nothing is down, but an operator applies a topology in which a link has half its rate.
TEST_F(UnevenSplitTest, PartsHeedALinkAtHalfItsRate) {
  StartDaemons("");
  fabric::TopologySpec topology = lab_->topology().Spec();
  BitsPerSecond& rate = topology.links[lab_->topology().FindLink("leaf0--spine0")->Index()].rate;
  rate.value /= 2;
  ASSERT_TRUE(lab::LimitLink(*lab_, "leaf0--spine0", rate).has_value());
  const auto applied = daemons_->ApplyTopology(topology);
  ASSERT_TRUE(applied.has_value()) << applied.error().message;
  const auto counted = CountedShares(/*paths=*/4, [&] {
    // Equal parts put 3/2 on one of the links.
    ASSERT_TRUE(AwaitStatus([](const io::JsonValue& now) {
      return AreSettled(now) && ValueOf(now.Find("max_load")->text) < 1.2;
    }));
  });
  ASSERT_EQ(counted.size(), 4U);
  Shares of_all;
  for (const auto& [source, shares] : counted) {
    for (const auto& [spine, share] : shares) of_all[spine] += share / 4;
  }
  EXPECT_LT(of_all["spine0"], 0.2) << "1/7 is its part of what the leaf has left";
  for (const std::string spine : {"spine1", "spine2", "spine3"}) EXPECT_GT(of_all[spine], 0.23);
}

TEST_F(SplitTest, SendersAreHeldToTheRateThatFlowsSettleAt) {
  StartDaemons("");  // by default, as the senders say that they keep rates
  // Three flows share two links, and each flow's two connections share its part.
  const double expected = 2.0 * kLinkBps / 3 / 2;
  std::vector<double> limits;
  const auto held = [&] {
    return limits.size() == 2 && std::ranges::all_of(limits, [&](double limit) {
             return std::abs(limit - expected) < 0.01 * expected;
           });
  };
  lab::TrafficOptions options{.use_agents = true, .time_limit = 120s};
  options.on_running = [&](std::chrono::nanoseconds) {
    if (!held()) limits = PacingLimits();
  };
  const auto result = lab::RunTraffic(*lab_, ThreeFlows(2), options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->completed);
  EXPECT_TRUE(held()) << testing::PrintToString(limits);
}

}  // namespace
}  // namespace espalier::demo
