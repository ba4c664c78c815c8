// Switches whose ECMP hash changes while flows are steered through them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "deploy/lab/ground_truth.h"
#include "deploy/lab/run_traffic.h"
#include "tests/deploy/demo/live_lab.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

// A 4x4x4 lab, in which every host sends to the host four or five further on. The time that the
// controller needs is printed, not asserted.
class RehashTest : public LiveLabTest {
 protected:
  static constexpr std::size_t kFlows = 16;
  static constexpr auto kPatience = 180s;

  void SetUp() override { StartLab({.link_rate = BitsPerSecond{50'000'000}}); }

  // A leaf gets another hash seed, as after an upgrade of a switch.
  void Rehash(const std::string& leaf, std::uint32_t seed) {
    const auto done = lab_->Run(
        leaf,
        {"sh", "-c", fmt::format("echo {} >/proc/sys/net/ipv4/fib_multipath_hash_seed", seed)});
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }

  IpAddress AddressOf(const std::string& host) const {
    return *IpAddress::Parse(lab_->layout().NicAddress(std::stoi(host.substr(1))));
  }

  struct SteeredFlow {
    lab::RouteQuery query;
    std::string decided;  // spine
  };
  std::vector<SteeredFlow> SteeredFlows() const {
    std::vector<SteeredFlow> flows;
    const auto answer = daemons_->Get("/api/v1/flows");
    if (!answer) return flows;
    for (const io::JsonValue& flow : answer->Find("flows")->items) {
      const auto port = static_cast<std::uint16_t>(std::stoi(flow.Find("source_port")->text));
      if (flow.Find("status")->text != "ROUTED" || port == 0) continue;
      if (!flow.Find("acknowledged")->boolean) continue;
      flows.push_back({{.source = AddressOf(flow.Find("source")->text),
                        .destination = AddressOf(flow.Find("destination")->text),
                        .source_port = port},
                       flow.Find("via")->text});
    }
    return flows;
  }
  // How many flows are on the paths that the controller decided, by the leaves' own look-ups.
  std::size_t FlowsOnTheirPaths() const {
    const std::vector<SteeredFlow> flows = SteeredFlows();
    std::vector<lab::RouteQuery> queries;
    for (const SteeredFlow& flow : flows) queries.push_back(flow.query);
    const auto spines = lab::LookUpSpines(*lab_, queries);
    if (!spines) return 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i < flows.size(); ++i)
      count += (*spines)[i] == flows[i].decided ? 1 : 0;
    return count;
  }
  bool AwaitAllOnTheirPaths() const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (FlowsOnTheirPaths() < kFlows) {
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }
  // Waits until the spines have counted further packets of every flow since now. Returns the flows
  // of which they count none in time.
  std::vector<std::string> AwaitThatAllSend(const traffic::Workload& workload) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const auto before = lab::ReadFlowCounts(*lab_);
    std::vector<std::string> silent{"all, as nothing could be counted"};
    while (before && !silent.empty() && std::chrono::steady_clock::now() < deadline) {
      const auto after = lab::ReadFlowCounts(*lab_);
      if (!after) continue;
      silent.clear();
      const auto counts = lab::Difference(*before, *after);
      for (const traffic::SingleFlow& flow : workload.flows) {
        const bool sends = std::ranges::any_of(counts, [&](const lab::FlowCount& count) {
          return count.source == AddressOf(flow.source) &&
                 count.destination == AddressOf(flow.destination) && count.protocol == 6 &&
                 count.bytes > 0;
        });
        if (!sends) silent.push_back(flow.id);
      }
    }
    return silent;
  }
};

TEST_F(RehashTest, EveryFlowReturnsToItsPath) {
  StartDaemons("");
  traffic::Workload workload;
  workload.segment_bytes = 100'000;
  for (int host = 0; host < 16; ++host) {
    workload.flows.push_back({.id = fmt::format("f{}", host),
                              .source = fmt::format("h{}", host),
                              .destination = fmt::format("h{}", (host + 4 + host % 2) % 16),
                              .bytes = 4'000'000'000});
  }
  bool right_before = false;
  std::size_t right_at_once = 0;
  bool right_after = false;
  double seconds = 0;
  bool is_over = false;
  std::vector<std::string> dead;
  lab::TrafficOptions options{.use_agents = true, .time_limit = 300s};
  options.is_over = [&] { return is_over; };
  options.on_running = [&](std::chrono::nanoseconds) {
    if (std::exchange(is_over, true)) return;
    right_before = AwaitAllOnTheirPaths();
    if (!right_before) return;
    Rehash("leaf0", 20'261'124);
    Rehash("leaf1", 42);
    right_at_once = FlowsOnTheirPaths();
    const auto start = std::chrono::steady_clock::now();
    right_after = AwaitAllOnTheirPaths();
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    dead = AwaitThatAllSend(workload);
  };
  const auto result = lab::RunTraffic(*lab_, workload, options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(right_before) << FlowsOnTheirPaths() << " of 16 flows are on their paths" << Events();
  EXPECT_LT(right_at_once, kFlows);
  EXPECT_TRUE(right_after) << FlowsOnTheirPaths() << " of 16 flows are on their paths" << Events();
  EXPECT_GE(Events("path_map_mismatch", "").size(), 1U) << Events();
  EXPECT_TRUE(dead.empty()) << fmt::format("{} are dead", fmt::join(dead, ", "));
  fmt::print("{} of 16 flows left their paths; all are back on them after {:.1f} s\n",
             kFlows - right_at_once, seconds);
}

}  // namespace
}  // namespace espalier::demo
