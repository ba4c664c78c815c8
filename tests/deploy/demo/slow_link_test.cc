// A link of a live fabric that loses packets: flows leave it, and return when it is healed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "deploy/lab/run_traffic.h"
#include "tests/deploy/demo/live_lab.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

// A 4x4x4 lab, in which every host sends to the host four further on. Times are printed, not
// asserted.
class SlowLinkTest : public LiveLabTest {
 protected:
  using Clock = std::chrono::steady_clock;

  void SetUp() override { StartLab({.link_rate = BitsPerSecond{50'000'000}}); }

  // A tenth of the packets that the spine forwards from or to the first leaf is lost. A packet is
  // one of the kernel's buffers here, up to 64 KiB of TCP. (A hundredth does not slow TCP down at
  // this rate, so the link is rightly not called slow.)
  void LosePackets(const std::string& spine) const {
    const fabric::Topology& topology = lab_->topology();
    const auto link = topology.FindLink("leaf0--" + spine);
    ASSERT_TRUE(link.has_value());
    const std::string port = topology.link(*link).b_port;
    const auto done = lab_->Run(spine, {"nft",
                                        "add table inet loss; add chain inet loss forward "
                                        "{ type filter hook forward priority 0; };"
                                        "add rule inet loss forward iifname " +
                                            port +
                                            " numgen random mod 10 == 0 drop;"
                                            "add rule inet loss forward oifname " +
                                            port + " numgen random mod 10 == 0 drop"});
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }
  void Heal(const std::string& spine) const {
    const auto done = lab_->Run(spine, {"nft", "delete table inet loss"});
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }

  struct LinkView {
    std::string state;
    int flows = 0;
  };
  LinkView Link(const std::string& id) const {
    const auto answer = daemons_->Get("/api/v1/links");
    if (!answer) return {};
    for (const io::JsonValue& link : answer->Find("links")->items) {
      if (link.Find("id")->text != id) continue;
      return {link.Find("state")->text, std::stoi(link.Find("flows_a_to_b")->text) +
                                            std::stoi(link.Find("flows_b_to_a")->text)};
    }
    return {};
  }
  // Whether the controller knows the rates of all flows, and they differ as little as those of
  // flows that are alone on their links: by less than makes one of them slow.
  bool AreRatesSettled(std::size_t flows) const {
    const auto answer = daemons_->Get("/api/v1/flows");
    if (!answer) return false;
    std::vector<double> rates;
    for (const io::JsonValue& flow : answer->Find("flows")->items) {
      rates.push_back(std::stod(flow.Find("achieved_bps")->text));
    }
    if (rates.size() != flows) return false;
    std::ranges::sort(rates);
    return rates.front() > 0.75 * rates[flows / 2];
  }
  // Returns the seconds until the condition holds; none: it does not within two minutes.
  template <typename Condition>
  static std::optional<double> Await(const Condition& holds) {
    const auto start = Clock::now();
    while (!holds()) {
      if (Clock::now() - start > 120s) return std::nullopt;
      std::this_thread::sleep_for(20ms);
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
};

TEST_F(SlowLinkTest, IsLeftAndUsedAgainWhenItIsHealed) {
  StartDaemons("");
  traffic::Workload workload;
  workload.segment_bytes = 100'000;
  for (int host = 0; host < 16; ++host) {
    workload.flows.push_back({.id = fmt::format("f{}", host),
                              .source = fmt::format("h{}", host),
                              .destination = fmt::format("h{}", (host + 4) % 16),
                              .bytes = 4'000'000'000});
  }
  const std::string link = "leaf0--spine2";
  bool is_used = false;
  bool is_settled = false;
  std::optional<double> left;
  std::optional<double> returned;
  std::size_t found_slow = 0;
  bool is_over = false;
  lab::TrafficOptions options{.use_agents = true, .time_limit = 400s};
  options.is_over = [&] { return is_over; };
  options.on_running = [&](std::chrono::nanoseconds) {
    if (std::exchange(is_over, true)) return;
    is_used = Await([&] { return Link(link).flows == 2; }).has_value();
    is_settled = Await([&] { return AreRatesSettled(workload.flows.size()); }).has_value();
    LosePackets("spine2");
    left = Await([&] { return Link(link).state == "SLOW" && Link(link).flows == 0; });
    found_slow = Events("link_slow", link).size();
    Heal("spine2");
    returned = Await([&] { return Link(link).state == "UP" && Link(link).flows > 0; });
    std::this_thread::sleep_for(5s);
  };
  const auto result = lab::RunTraffic(*lab_, workload, options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(is_used);
  EXPECT_TRUE(is_settled);
  EXPECT_TRUE(left.has_value()) << Events();
  EXPECT_TRUE(returned.has_value()) << Events();
  EXPECT_EQ(found_slow, 1U) << Events();
  EXPECT_EQ(Events("link_slow", link).size(), 1U) << Events();  // it does not flap
  fmt::print(
      "{} loses 10 % of its packets: flows leave it after {:.1f} s and return {:.1f} s after "
      "it is healed\n",
      link, left.value_or(-1), returned.value_or(-1));
}

}  // namespace
}  // namespace espalier::demo
