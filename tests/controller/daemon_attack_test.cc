// An attacker that may connect, against the real controller: it speaks ZMTP over a raw socket.
#include <algorithm>

#include "proto/convert.h"
#include "tests/attack/zmtp.h"
#include "tests/controller/daemon_fixture.h"

namespace espalier::controller {
namespace {

using attack::ZmtpDealer;

class DaemonUnderAttack : public Daemon {
 protected:
  DaemonUnderAttack() { WriteConfig("insecure_plaintext: true\n"); }

  static std::string Say(wire::Body body) {
    return wire::Encode({.sender_instance = 666, .body = std::move(body)});
  }
  // It is the agent of "h1" from now on, with so many flows.
  void Join(ZmtpDealer& attacker, std::uint64_t flows) {
    ASSERT_TRUE(attacker.Send(Say(wire::Hello{.name = "h1", .features = {}, .nics = {}})));
    const auto answer = attacker.Receive();
    ASSERT_TRUE(answer.has_value());
    wire::Decoder decoder;
    const auto welcome = decoder.Decode(*answer);
    ASSERT_TRUE(welcome.has_value());
    ASSERT_TRUE(std::get<wire::Welcome>((*welcome)->body).accepted);
    wire::FlowReport report{.full = true, .sequence = 1, .jobs = {"j"}};
    report.addresses = {IpAddress::FromV4(0x0a000002), IpAddress::FromV4(0x0a000001)};
    for (std::uint64_t id = 1; id <= flows; ++id) {
      report.opened.push_back({.id = wire::LocalFlowId(id), .destination = 1, .path_ports = {}});
    }
    ASSERT_TRUE(attacker.Send(Say(report)));
  }
  static wire::PathHealth Verdicts(std::uint64_t flows, int times) {
    wire::PathHealth health;
    for (int time = 0; time < times; ++time) {
      for (std::uint64_t id = 1; id <= flows; ++id) {
        health.flows.push_back({.flow = wire::LocalFlowId(id),
                                .source_port = static_cast<std::uint16_t>(50'000 + time),
                                .verdict = wire::PathVerdict::kRedrawn});
      }
    }
    return health;
  }
  std::int64_t Metric(const std::string& name) {
    const auto answer = io::HttpFetch("unix:" + Path("api.sock"), "GET", "/metrics", "", 60s);
    EXPECT_TRUE(answer);
    const std::size_t at = answer ? answer->body.find("\n" + name + " ") : std::string::npos;
    if (at == std::string::npos) return -1;
    return std::stoll(answer->body.substr(at + name.size() + 2));
  }
  void AwaitMetric(const std::string& name, std::int64_t least) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (Metric(name) < least) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << name << " is " << Metric(name);
      std::this_thread::sleep_for(5ms);
    }
  }
  std::size_t CountEvents(const std::string& kind) {
    const std::string events = Events();
    const std::string key = "\"" + kind + "\"";
    std::size_t count = 0;
    for (auto at = events.find(key); at != std::string::npos; at = events.find(key, at + 1)) {
      ++count;
    }
    return count;
  }
};

TEST_F(DaemonUnderAttack, AMessageThatNamesOneFlowWithoutEndIsRefused) {
  Start();
  ZmtpDealer attacker(bus_port_);
  Join(attacker, 1);
  const std::string lie = Say(Verdicts(1, 16'384));
  for (int i = 0; i < 60; ++i) attacker.Send(lie);
  AwaitMetric("espalier_controller_bad_messages_total", 60);
  EXPECT_EQ(CountEvents("flow_redrawn"), 0U);
  EXPECT_EQ(CountEvents("controller_started"), 1U);
}

TEST_F(DaemonUnderAttack, WorkWithoutEndIsSentAwayAndTheHistoryStays) {
  Start();
  ASSERT_EQ(Act("links/fail?id=leaf0--spine0").status, 200);
  ZmtpDealer attacker(bus_port_);
  Join(attacker, 256);
  const std::string lie = Say(Verdicts(256, 64));
  // It goes on after the goodbye, which it does not care for.
  for (int i = 0; i < 60 && attacker.Send(lie); ++i) continue;
  AwaitEvent("max_entries_per_second");
  EXPECT_GE(Metric("espalier_controller_agents_over_limit_total"), 1);
  EXPECT_EQ(CountEvents("link_failed"), 1U);
  EXPECT_EQ(CountEvents("controller_started"), 1U);
  EXPECT_LE(CountEvents("flow_redrawn"), 256U);
  EXPECT_GT(Metric("espalier_controller_events_dropped"), 0);
  EXPECT_EQ(CallUnix("GET", "status").status, 200);
}

TEST_F(DaemonUnderAttack, NoiseOfOnePeerIsABoundedNumberOfEvents) {
  Start();
  ZmtpDealer attacker(bus_port_);
  for (int i = 0; i < 3'000; ++i) attacker.Send("no message of ours");
  AwaitMetric("espalier_controller_bad_messages_total", 3'000);
  EXPECT_LE(CountEvents("bad_message"), 256U);
  EXPECT_GE(CountEvents("bad_message"), 1U);
}

}  // namespace
}  // namespace espalier::controller
