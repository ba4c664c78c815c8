// Traffic that Espalier does not know fills a link of a live fabric, and flows avoid it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "common/os/command.h"
#include "deploy/lab/ground_truth.h"
#include "deploy/lab/run_traffic.h"
#include "tests/deploy/demo/live_lab.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

class BackgroundTest : public LiveLabTest {
 protected:
  void SetUp() override {
    StartLab(
        {.spines = 3, .leaves = 2, .hosts_per_leaf = 3, .link_rate = BitsPerSecond{50'000'000}});
  }

  // The lab's telemetry: link states, and what the switches' interfaces have sent.
  Result<ChildProcess> StartFeed() const {
    // The end of the shell ends both: the second would wait for its controller for ever.
    constexpr const char* kScript =
        R"(die="setpriv --pdeathsig KILL"; $die "$0" lab watch --name "$1" --loads 0.3 |
           $die "$0" report links --follow --controller "$2")";
    return ChildProcess::Start({.argv = {"sh", "-c", kScript, daemons_->programs() + "/espalier",
                                         lab_->record().options.name, daemons_->api_address()}});
  }

  // The spine to which the first leaf's link has background traffic; empty: none has.
  std::string FilledSpine() const {
    const auto answer = daemons_->Get("/api/v1/links");
    if (!answer) return "";
    for (const io::JsonValue& link : answer->Find("links")->items) {
      const io::JsonValue* const background = link.Find("background_a_to_b");
      if (link.Find("a")->text != "leaf0" || background == nullptr) continue;
      if (std::stod(background->Find("bps")->text) > 25e6) return link.Find("b")->text;
    }
    return "";
  }
  std::string AwaitFilledSpine() const {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    std::string spine = FilledSpine();
    while (spine.empty() && std::chrono::steady_clock::now() < deadline) spine = FilledSpine();
    return spine;
  }
};

TEST_F(BackgroundTest, TwoFlowsAvoidALinkThatAForeignFlowFills) {
  StartDaemons("");
  auto feed = StartFeed();
  ASSERT_TRUE(feed.has_value()) << feed.error().message;
  std::atomic<bool> is_over = false;
  std::thread foreign([&] {
    traffic::Workload workload;
    workload.flows = {
        {.id = "foreign", .source = "h0", .destination = "h3", .bytes = 1'000'000'000}};
    lab::TrafficOptions options{.time_limit = 120s, .is_over = [&] { return is_over.load(); }};
    const auto result = lab::RunTraffic(*lab_, workload, options);
    EXPECT_TRUE(result.has_value());
  });
  const std::string filled = AwaitFilledSpine();
  EXPECT_NE(filled, "");
  const auto before = lab::ReadFlowCounts(*lab_);
  traffic::Workload workload;
  workload.segment_bytes = 100'000;
  for (int host = 1; host <= 2; ++host) {
    workload.flows.push_back({.id = fmt::format("f{}", host),
                              .source = fmt::format("h{}", host),
                              .destination = fmt::format("h{}", host + 3),
                              .bytes = 12'000'000});
  }
  const auto result = lab::RunTraffic(*lab_, workload, {.use_agents = true, .time_limit = 120s});
  const auto after = lab::ReadFlowCounts(*lab_);
  is_over = true;
  foreign.join();
  feed->Kill();
  ASSERT_TRUE(result.has_value() && before.has_value() && after.has_value());
  EXPECT_TRUE(result->completed);
  const std::vector<lab::FlowCount> counts = lab::Difference(*before, *after);
  for (const lab::FlowOutcome& flow : result->flows) {
    std::int64_t all = 0;
    std::int64_t over_filled = 0;
    for (const lab::FlowCount& count : counts) {
      if (count.source != flow.source || count.destination != flow.destination) continue;
      all += count.bytes;
      if (count.spine == filled) over_filled += count.bytes;
    }
    EXPECT_GE(all, 12'000'000);
    // Before it has its port, a flow sends where the hash leads.
    EXPECT_LE(over_filled, all / 4) << flow.plan.id << " over " << filled;
  }
  fmt::print("2 flows of 12 MB beside a foreign flow on {}: slowest {:.2f} s (alone: 1.92 s)\n",
             filled, result->SlowestFlowSeconds());
}

}  // namespace
}  // namespace espalier::demo
