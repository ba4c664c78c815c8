// A link of a live fabric that loses packets: it is found by tests, flows leave it, and return when
// it is healed. A link without a fault stays in use whatever its load.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "deploy/lab/run_traffic.h"
#include "tests/deploy/demo/link_losses.h"
#include "tests/deploy/demo/live_lab.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

// A 4x4x4 lab, in which every host sends to the host four further on. Times are printed, not
// asserted.
class LossyLinkTest : public LiveLabTest {
 protected:
  using Clock = std::chrono::steady_clock;

  void SetUp() override {
    StartLab({.link_rate = BitsPerSecond{50'000'000}});
    if (lab_) StartDaemons("");
  }

  struct LinkView {
    std::string state;
    int flows = 0;
    std::string words;  // of the test that took it out of use
  };
  LinkView Link(const std::string& id) const {
    const auto answer = daemons_->Get("/api/v1/links");
    if (!answer) return {};
    for (const io::JsonValue& link : answer->Find("links")->items) {
      if (link.Find("id")->text != id) continue;
      const io::JsonValue* const why = link.Find("why");
      return {
          link.Find("state")->text,
          std::stoi(link.Find("flows_a_to_b")->text) + std::stoi(link.Find("flows_b_to_a")->text),
          why == nullptr ? "" : why->Find("words")->text};
    }
    return {};
  }
  // Returns the seconds until the condition holds; none: it does not within three minutes.
  template <typename Condition>
  static std::optional<double> Await(const Condition& holds) {
    const auto start = Clock::now();
    while (!holds()) {
      if (Clock::now() - start > 180s) return std::nullopt;
      std::this_thread::sleep_for(20ms);
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  static traffic::Workload Shift() {
    traffic::Workload workload;
    workload.segment_bytes = 100'000;
    for (int host = 0; host < 16; ++host) {
      workload.flows.push_back({.id = fmt::format("f{}", host),
                                .source = fmt::format("h{}", host),
                                .destination = fmt::format("h{}", (host + 4) % 16),
                                .bytes = 40'000'000'000});
    }
    return workload;
  }
};

TEST_F(LossyLinkTest, IsLeftAndUsedAgainWhenItIsHealed) {
  const std::string link = "leaf0--spine2";
  bool is_used = false;
  std::optional<double> left;
  std::optional<double> returned;
  std::string words;
  bool is_over = false;
  lab::TrafficOptions options{.use_agents = true, .time_limit = 600s};
  options.is_over = [&] { return is_over; };
  options.on_running = [&](std::chrono::nanoseconds) {
    if (std::exchange(is_over, true)) return;
    is_used = Await([&] { return Link(link).flows == 2; }).has_value();
    ASSERT_TRUE(LosePackets(*lab_, {.from = "spine2", .to = "leaf0", .percent = 10}));
    left = Await([&] { return Link(link).state == "LOSSY" && Link(link).flows == 0; });
    words = Link(link).words;
    ASSERT_TRUE(HealLosses(*lab_, "spine2"));
    returned = Await([&] { return Link(link).state == "UP" && Link(link).flows > 0; });
  };
  const auto result = lab::RunTraffic(*lab_, Shift(), options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(is_used);
  EXPECT_TRUE(left.has_value()) << Events();
  EXPECT_TRUE(returned.has_value()) << Events();
  EXPECT_TRUE(words.starts_with("spine2>leaf0 lost ")) << words;
  EXPECT_EQ(Events("link_lossy", "").size(), 1U) << Events();  // no other one, and no flapping
  EXPECT_TRUE(Events("link_detected_down", "").empty()) << Events();
  fmt::print("{}: {}\nflows leave it after {:.1f} s and return {:.1f} s after it is healed\n", link,
             words, left.value_or(-1), returned.value_or(-1));
}

}  // namespace
}  // namespace espalier::demo
