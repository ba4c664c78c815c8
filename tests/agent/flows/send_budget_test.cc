// Programs determine how much their agent has to report. Whatever they do, it stays within its
// limits, and important messages are sent.
#include "agent/flows/send_budget.h"

#include <gmock/gmock.h>

#include "tests/agent/agent_fixture.h"

namespace espalier::agent {
namespace {

// Checks the messages against the default limits of a controller, second by second.
class StrictController {
 public:
  bool Takes(const std::vector<wire::Message>& messages, TimePoint now) {
    bool takes = true;
    for (const wire::Message& message : messages) {
      takes = messages_.Take(1, now) && takes;
      takes = entries_.Take(static_cast<double>(wire::CostOf(message.body)), now) && takes;
      takes = bytes_.Take(static_cast<double>(wire::Encode(message).size()), now) && takes;
    }
    return takes;
  }

 private:
  static TokenBucket Of(double limit) { return {limit, limit, TimePoint{}}; }
  TokenBucket messages_ = Of(wire::AgentLimits{}.messages_per_second);
  TokenBucket bytes_ = Of(wire::AgentLimits{}.bytes_per_second);
  TokenBucket entries_ = Of(wire::AgentLimits{}.entries_per_second);
};

class AgentUnderAttack : public AgentTest {
 protected:
  // True if everything sent since the last call is within the limits.
  bool IsTaken() { return controller_.Takes(std::exchange(bus_.sent, {}), loop_.Now()); }
  std::size_t Heartbeats() {
    return static_cast<std::size_t>(std::ranges::count_if(bus_.sent, [](const wire::Message& sent) {
      return std::holds_alternative<wire::Heartbeat>(sent.body);
    }));
  }
  StrictController controller_;
};

TEST_F(AgentUnderAttack, FlowsThatOpenAndEndWithoutAPauseKeepTheHostOnItsController) {
  Sync();
  std::uint64_t next = 1;
  std::size_t reports = 0;
  for (int ms = 0; ms < 3'000; ++ms) {
    if (ms % 100 == 0) bus_.Deliver(wire::Heartbeat{}, kController);
    for (int i = 0; i < 7; ++i) {
      Open(next);
      if (next > 1) End(next - 1);
      ++next;
    }
    loop_.Advance(kMs);
    for (const wire::Message& sent : bus_.sent) {
      reports += std::holds_alternative<wire::FlowReport>(sent.body) ? 1 : 0;
    }
    ASSERT_TRUE(IsTaken()) << ms;
  }
  EXPECT_LE(reports, 3'100u) << "one in a millisecond";
  EXPECT_EQ(agent_->state(), AgentState::kSynced);
}

TEST_F(AgentUnderAttack, CollectiveReportsWithoutEndAreDroppedAndAllElseGoesOut) {
  Sync();
  Open(1);
  std::size_t heartbeats = 0;
  std::size_t opened = 1;
  for (int ms = 0; ms < 3'000; ++ms) {
    if (ms % 100 == 0) bus_.Deliver(wire::Heartbeat{}, kController);
    for (int i = 0; i < 50; ++i) {
      agent_->SendReport({.job = "j", .collective = "allreduce", .error = std::string(4'000, 'x')});
    }
    if (ms % 300 == 0) Open(++opened);
    loop_.Advance(kMs);
    heartbeats += Heartbeats();
    ASSERT_TRUE(IsTaken()) << ms;
  }
  EXPECT_GE(heartbeats, 2u);
  EXPECT_EQ(agent_->state(), AgentState::kSynced);
  EXPECT_THAT(metrics_.Text(), ::testing::HasSubstr("espalier_agent_collective_reports_dropped_"));
  EXPECT_GT(metrics_.MakeCounter("espalier_agent_collective_reports_dropped_total", "").Value(),
            100'000);
  EXPECT_EQ(metrics_.MakeCounter("espalier_agent_flow_reports_delayed_total", "").Value(), 0);
}

TEST_F(AgentUnderAttack, DelayedReportsAreSentLater) {
  Make();
  agent_->Start();
  bus_.Deliver(wire::Welcome{.accepted = true,
                             .reason = {},
                             .epoch = 1,
                             .heartbeat_interval_us = 1'000'000,
                             .features = {},
                             .max_entries_per_second = 1'000},
               kController);
  for (std::uint64_t id = 1; id <= 100; ++id) Open(id);
  for (std::uint64_t id = 1; id <= 50; ++id) End(id);
  bus_.sent.clear();
  for (std::uint64_t id = 101; id <= 120; ++id) Open(id);
  for (int second = 0; second < 20; ++second) Live(kSecond);
  std::size_t opened = 0;
  for (const wire::FlowReport& report : bus_.Take<wire::FlowReport>())
    opened += report.opened.size();
  EXPECT_GE(opened, 20u);
  EXPECT_GT(metrics_.MakeCounter("espalier_agent_flow_reports_delayed_total", "").Value(), 0);
}

TEST_F(AgentUnderAttack, ReportsLessOftenWhereTheControllerSaysSo) {
  Sync();
  FlowSample& flow = Open(1, 1ull << 40);
  const auto reports_in_a_second = [&] {
    bus_.sent.clear();
    for (int ms = 0; ms < 1'000; ++ms) {
      flow.remaining_bytes = (ms % 20 < 10 ? 1ull : 2ull) << 30;
      loop_.Advance(kMs);
    }
    return bus_.Take<wire::FlowReport>().size();
  };
  const std::size_t usual = reports_in_a_second();
  bus_.Deliver(wire::Heartbeat{.report_interval_us = 100'000}, kController);
  const std::size_t seldom = reports_in_a_second();
  EXPECT_GE(usual, 90u);
  EXPECT_LE(seldom, 11u);
  EXPECT_GE(seldom, 8u);
}

}  // namespace
}  // namespace espalier::agent
