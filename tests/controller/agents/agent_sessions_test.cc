// Tests which agents are accepted, which messages are passed on, and when an agent is gone.
#include "controller/agents/agent_sessions.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/fabric/builders.h"
#include "common/sim/sim_world.h"
#include "controller/store/memory_store.h"
#include "proto/encode.h"
#include "proto/message_cost.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr PeerId kPeer{7};
constexpr PeerId kOther{8};
constexpr std::uint64_t kInstance = 100;
constexpr std::uint64_t kOurs = 55;
constexpr std::uint64_t kMaxEpochsAhead = 1 << 20;

// A bus that records sent messages; the test delivers.
class FakeBus : public Bus {
 public:
  void SetHandlers(Handlers given) override { handlers = std::move(given); }
  bool Send(PeerId to, std::string bytes) override {
    sent.emplace_back(to, **decoder_.Decode(bytes));
    return true;
  }
  void Disconnect(PeerId peer) override { disconnected.push_back(peer); }
  std::optional<std::string> AuthenticatedName(PeerId peer) const override {
    const auto found = names.find(peer);
    return found == names.end() ? std::nullopt : std::optional(found->second);
  }

  Handlers handlers;
  std::vector<std::pair<PeerId, wire::Message>> sent;
  std::vector<PeerId> disconnected;
  std::map<PeerId, std::string> names;

 private:
  wire::Decoder decoder_;
};

class Sessions : public testing::Test {
 protected:
  explicit Sessions(ControllerOptions options = {.instance = kOurs})
      : options_(std::move(options)) {
    state_.epoch = disk_.epoch = 10;
    sessions_.Start({.on_flow_report =
                         [this](AgentId, const auto&) {
                           ++reports_;
                           return !misses_report_;
                         },
                     .on_ack = [](AgentId, const auto&) {},
                     .on_probe_report = [](AgentId, const auto&) {},
                     .on_path_health = [](AgentId, const auto&) {},
                     .on_link_event = [](AgentId, const auto&) { return false; },
                     .on_collective_report = [](AgentId, const auto&) { return true; },
                     .on_new_process = [this](AgentId) { ++new_processes_; }});
  }

  void Deliver(PeerId peer, std::uint64_t instance, wire::Body body) {
    bus_.handlers.on_message(peer, wire::Encode({instance, std::move(body)}));
    world_.RunFor(1us);
  }
  static wire::Hello HelloOf(const std::string& name, std::uint64_t epoch = 0) {
    wire::Hello hello;
    hello.name = name;
    hello.highest_epoch = epoch;
    return hello;
  }
  // The answer to a Hello.
  wire::Welcome Hello(PeerId peer, const wire::Hello& hello, std::uint64_t instance = kInstance) {
    bus_.sent.clear();
    Deliver(peer, instance, hello);
    for (const auto& [to, message] : bus_.sent) {
      const auto* welcome = std::get_if<wire::Welcome>(&message.body);
      if (to == peer && welcome != nullptr) return *welcome;
    }
    ADD_FAILURE() << "no answer";
    return {};
  }
  wire::Welcome Hello(PeerId peer, const std::string& name) { return Hello(peer, HelloOf(name)); }
  bool IsConnected(const std::string& name) const {
    const auto id = state_.agents.FindByName(name);
    return id && state_.agents.At(*id).peer;
  }
  AgentId IdOf(const std::string& name) const { return *state_.agents.FindByName(name); }
  std::string LastEvent() const {
    const auto events = state_.history.Since(state_.history.last_sequence() - 1, 1);
    return events.empty() ? "" : events[0].kind + " " + events[0].text;
  }
  std::int64_t Bad() {
    return metrics_.MakeCounter("espalier_controller_bad_messages_total", "").Value();
  }

  sim::SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  ControllerOptions options_;
  State state_{*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}))};
  Metrics metrics_;
  MemoryDisk disk_;
  MemoryStore store_{disk_, *loop_};
  FakeBus bus_;
  int reports_ = 0;
  bool misses_report_ = false;
  int new_processes_ = 0;
  AgentSessions sessions_{state_, options_, *loop_, bus_, store_, metrics_};
};

TEST_F(Sessions, WelcomeAnAgentWithItsLimits) {
  wire::Hello hello = HelloOf("h0");
  hello.features = {"verbs"};
  const wire::Welcome welcome = Hello(kPeer, hello);
  EXPECT_TRUE(welcome.accepted);
  EXPECT_EQ(welcome.epoch, 10U);
  EXPECT_EQ(welcome.heartbeat_interval_us, 1'000'000U);
  EXPECT_EQ(welcome.max_entries_per_second, 1'200'000U);
  EXPECT_EQ(welcome.report_interval_us, 0U);
  const Agent& agent = state_.agents.At(IdOf("h0"));
  EXPECT_EQ(agent.peer, kPeer);
  EXPECT_TRUE(agent.Has("verbs"));
  EXPECT_TRUE(state_.pushes.NeedsFull(IdOf("h0")));
  EXPECT_EQ(state_.pushes.agents(), std::set{IdOf("h0")});
  EXPECT_EQ(new_processes_, 1);
  EXPECT_EQ(LastEvent(), "agent_up agent=h0 nics=0");
  EXPECT_EQ(bus_.sent[0].second.sender_instance, kOurs);
}

TEST_F(Sessions, PassOnMessagesOfAgentsAndNoneOfStrangers) {
  Deliver(kPeer, kInstance, wire::FlowReport{});
  EXPECT_EQ(reports_, 0);
  EXPECT_EQ(std::get<wire::Welcome>(bus_.sent.at(0).second.body).reason,
            "no session on this connection (send Hello first)");
  Hello(kPeer, "h0");
  Deliver(kPeer, kInstance, wire::FlowReport{});
  EXPECT_EQ(reports_, 1);
  Deliver(kPeer, kInstance + 1, wire::FlowReport{});  // another process of that connection
  EXPECT_EQ(reports_, 1);
  EXPECT_EQ(Bad(), 2);
}

TEST_F(Sessions, CountRefusedMessages) {
  Hello(kPeer, "h0");
  wire::LinkEvent event;
  event.address = IpAddress::FromV4(1);
  Deliver(kPeer, kInstance, event);  // the handler says no
  EXPECT_EQ(Bad(), 1);
  wire::Welcome welcome;
  welcome.reason = "no";
  Deliver(kPeer, kInstance, welcome);  // only a controller says that
  EXPECT_EQ(Bad(), 2);
  bus_.handlers.on_message(kPeer, "no message");
  EXPECT_EQ(Bad(), 3);
  EXPECT_EQ(LastEvent().substr(0, 28), "bad_message peer=7 bytes=10 ");
  EXPECT_TRUE(IsConnected("h0"));
}

TEST_F(Sessions, RefuseAnotherProtocol) {
  wire::Hello hello = HelloOf("h0");
  hello.protocol_major = wire::kProtocolMajor + 1;
  const wire::Welcome welcome = Hello(kPeer, hello);
  EXPECT_FALSE(welcome.accepted);
  EXPECT_NE(welcome.reason.find("upgrade the older side"), std::string::npos) << welcome.reason;
  EXPECT_EQ(LastEvent(), "agent_refused agent=h0 reason=\"" + welcome.reason + "\"");
}

TEST_F(Sessions, RefuseANameThatIsNotTheKeysName) {
  bus_.names[kPeer] = "h0";
  EXPECT_EQ(Hello(kPeer, "h1").reason, "this key belongs to h0, not to h1");
  EXPECT_EQ(state_.agents.FindByName("h1"), std::nullopt);
  EXPECT_TRUE(Hello(kPeer, "h0").accepted);
}

TEST_F(Sessions, RefuseASecondProcessOfANameUntilTheFirstHasBeenSilent) {
  Hello(kPeer, "h0");
  EXPECT_EQ(Hello(kOther, HelloOf("h0"), kInstance + 1).reason,
            "another agent with this name is connected (names must be unique)");
  world_.RunFor(3s);
  EXPECT_TRUE(Hello(kOther, HelloOf("h0"), kInstance + 1).accepted);
  EXPECT_EQ(bus_.disconnected, std::vector{kPeer});
  EXPECT_EQ(new_processes_, 2);
}

TEST_F(Sessions, TheSameProcessMayUseAnotherConnection) {
  Hello(kPeer, "h0");
  state_.agents.At(IdOf("h0")).report_sequence = 5;
  EXPECT_TRUE(Hello(kOther, "h0").accepted);
  EXPECT_EQ(bus_.disconnected, std::vector{kPeer});
  EXPECT_EQ(new_processes_, 1);
  EXPECT_EQ(state_.agents.At(IdOf("h0")).report_sequence, 0U);
}

TEST_F(Sessions, LimitTheNumberOfStrangers) {
  for (int i = 0; i < 1'024; ++i) {
    ASSERT_TRUE(
        Hello(PeerId(1'000U + static_cast<unsigned>(i)), "new" + std::to_string(i)).accepted);
  }
  EXPECT_EQ(Hello(kPeer, "one more").reason,
            "no host of the topology has this name, and too many such agents are known");
  EXPECT_TRUE(Hello(kPeer, "h0").accepted);
  EXPECT_TRUE(Hello(PeerId(1'000), "new0").accepted);  // known
}

TEST_F(Sessions, RaiseTheEpochAtMostTwice) {
  EXPECT_EQ(Hello(kPeer, HelloOf("h0", 20)).epoch, 21U);
  EXPECT_EQ(disk_.epoch, 21U);
  EXPECT_EQ(state_.epoch, 21U);
  EXPECT_EQ(Hello(kOther, HelloOf("h1", 30)).epoch, 10 + kMaxEpochsAhead + 1);
  EXPECT_EQ(Hello(PeerId(9), HelloOf("h2", 10 + kMaxEpochsAhead)).epoch, 10 + kMaxEpochsAhead + 1);
}

TEST_F(Sessions, RefuseAnEpochThatNoControllerCanHaveGiven) {
  EXPECT_EQ(Hello(kPeer, HelloOf("h0", 10 + kMaxEpochsAhead + 1)).reason,
            "the agent claims an epoch that no controller can have reached");
  EXPECT_EQ(state_.epoch, 10U);
}

TEST_F(Sessions, AllAgentsGetAFullPushInANewEpoch) {
  Hello(kPeer, "h0");
  Agent& first = state_.agents.At(IdOf("h0"));
  first.generation = first.acked_generation = 7;
  state_.pushes.Of(IdOf("h0")).needs_full = false;
  Hello(kOther, HelloOf("h1", 20));
  EXPECT_TRUE(state_.pushes.NeedsFull(IdOf("h0")));
  EXPECT_EQ(state_.agents.At(IdOf("h0")).generation, 0U);
}

TEST_F(Sessions, RefuseALaterEpochThatCannotBeStored) {
  disk_.is_full = true;
  EXPECT_EQ(Hello(kPeer, HelloOf("h0", 20)).reason,
            "the controller cannot save its epoch: the disk is full");
  EXPECT_EQ(state_.epoch, 10U);
  EXPECT_FALSE(IsConnected("h0"));
}

TEST_F(Sessions, AKnownProcessMayHaveSeenThisEpoch) {
  Hello(kPeer, "h0");
  EXPECT_TRUE(Hello(kPeer, HelloOf("h0", 10)).accepted);
  EXPECT_EQ(state_.epoch, 10U);
}

TEST_F(Sessions, APeerThatTheBusLostIsDisconnected) {
  Hello(kPeer, "h0");
  bus_.handlers.on_peer_gone(kPeer);
  bus_.handlers.on_peer_gone(kOther);
  EXPECT_FALSE(IsConnected("h0"));
  EXPECT_FALSE(sessions_.Send(IdOf("h0"), wire::Heartbeat{}));
}

TEST_F(Sessions, SilentAgentsAreDroppedAfterMissedHeartbeats) {
  Hello(kPeer, "h0");
  world_.RunFor(3s - 1us);
  sessions_.DropSilent();
  EXPECT_TRUE(IsConnected("h0"));
  Deliver(kPeer, kInstance, wire::Heartbeat{});
  world_.RunFor(3s - 1us);
  sessions_.DropSilent();
  EXPECT_TRUE(IsConnected("h0"));
  world_.RunFor(2us);
  sessions_.DropSilent();
  EXPECT_FALSE(IsConnected("h0"));
  EXPECT_EQ(bus_.disconnected, std::vector{kPeer});
  EXPECT_EQ(LastEvent(), "agent_gone agent=h0");
}

TEST_F(Sessions, AnAgentWhoseReportWasLostStartsOver) {
  Hello(kPeer, "h0");
  state_.agents.At(IdOf("h0")).report_sequence = 4;
  Deliver(kPeer, kInstance, wire::Heartbeat{.sequence = 4});
  EXPECT_TRUE(IsConnected("h0"));
  Deliver(kPeer, kInstance, wire::Heartbeat{.sequence = 5});
  EXPECT_FALSE(IsConnected("h0"));
  EXPECT_EQ(bus_.disconnected, std::vector{kPeer});
  EXPECT_EQ(LastEvent(), "report_lost agent=h0");
}

TEST_F(Sessions, HeartbeatsAreSpreadOverTheIntervalAndComeOnceInIt) {
  constexpr int kAgents = 25;
  for (unsigned i = 0; i < kAgents; ++i) Hello(PeerId(100U + i), "a" + std::to_string(i));
  bus_.sent.clear();
  std::map<PeerId, int> beats;
  for (int tick = 0; tick < 10; ++tick) {
    const std::size_t before = bus_.sent.size();
    sessions_.SendHeartbeats();
    EXPECT_LE(bus_.sent.size() - before, 3U);
  }
  for (const auto& [peer, message] : bus_.sent) {
    ++beats[peer];
    EXPECT_EQ(std::get<wire::Heartbeat>(message.body).sequence, 1U);
    EXPECT_EQ(std::get<wire::Heartbeat>(message.body).epoch, 10U);
  }
  EXPECT_EQ(beats.size(), std::size_t{kAgents});
  EXPECT_EQ(bus_.sent.size(), std::size_t{kAgents});
}

TEST_F(Sessions, FindTheAgentThatCanProbeFromANic) {
  const fabric::NodeId nic = *state_.topology.FindNode("h0");
  EXPECT_EQ(sessions_.FindProber(nic), std::nullopt);
  Hello(kPeer, "h0");
  EXPECT_EQ(sessions_.FindProber(nic), IdOf("h0"));
  bus_.handlers.on_peer_gone(kPeer);
  EXPECT_EQ(sessions_.FindProber(nic), std::nullopt);
}

TEST_F(Sessions, RecordRefusalsSinceTheLastTimeAndGroupStrangers) {
  world_.RunFor(1s);
  sessions_.HandleRefusal("", "no key");
  sessions_.HandleRefusal("", "no key");
  sessions_.RecordRefusals();
  EXPECT_EQ(LastEvent(), "peer_refused who=unknown reason=\"no key\" count=2");
  sessions_.RecordRefusals();
  EXPECT_EQ(state_.history.last_sequence(), 1U);
  for (int i = 0; i < 20; ++i) sessions_.HandleRefusal(std::to_string(i), "no key");
  sessions_.RecordRefusals();
  EXPECT_EQ(state_.history.last_sequence(), 18U);  // sixteen, and the others
  EXPECT_EQ(LastEvent(), "peer_refused who=others reason=\"no key\" count=4");
}

TEST_F(Sessions, EndOfAnAgentOneOfWhoseReportsIsMissing) {
  Hello(kPeer, "h0");
  Deliver(kPeer, kInstance, wire::FlowReport{});
  EXPECT_TRUE(bus_.disconnected.empty());
  misses_report_ = true;
  Deliver(kPeer, kInstance, wire::FlowReport{});
  EXPECT_EQ(LastEvent(), "report_lost agent=h0");
  EXPECT_EQ(bus_.disconnected, std::vector{kPeer});
  EXPECT_EQ(state_.agents.At(IdOf("h0")).peer, std::nullopt);
}

class Limited : public Sessions {
 protected:
  // Room for a Hello and a hundred entries.
  static constexpr double kEntries = 10'108;
  Limited() : Sessions({.instance = kOurs, .agent_limits = {.entries_per_second = kEntries}}) {}
};

TEST_F(Limited, AnAgentOverItsAllowanceIsDisconnectedAndCannotReturnAtOnce) {
  ASSERT_TRUE(Hello(kPeer, "h0").accepted);
  int taken = 0;
  for (; IsConnected("h0") && taken < 100; ++taken) Deliver(kPeer, kInstance, wire::FlowReport{});
  EXPECT_EQ(reports_, 12);  // of 8 entries each
  EXPECT_EQ(taken, 13);
  EXPECT_EQ(bus_.disconnected, std::vector{kPeer});
  EXPECT_EQ(Hello(kOther, "h0").reason, "the agent sends more entries than max_entries_per_second");
  EXPECT_TRUE(Hello(PeerId(9), "h1").accepted);  // nobody else
  world_.RunFor(3s);
  EXPECT_TRUE(Hello(kOther, "h0").accepted);
}

TEST_F(Limited, MalformedMessagesCount) {
  Hello(kPeer, "h0");
  bus_.handlers.on_message(kPeer, "no message");
  EXPECT_FALSE(IsConnected("h0"));
}

TEST_F(Limited, AllowancesAreResetWithNewLimits) {
  Hello(kPeer, "h0");
  for (int i = 0; i < 12; ++i) Deliver(kPeer, kInstance, wire::FlowReport{});
  sessions_.ResetAllowances();
  Deliver(kPeer, kInstance, wire::FlowReport{});
  EXPECT_TRUE(IsConnected("h0"));
}

class Crowd : public Sessions {
 protected:
  Crowd() : Sessions({.instance = kOurs, .max_reports_per_second = 100}) {}
};

TEST_F(Crowd, ManyAgentsReportLessOften) {
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_EQ(Hello(PeerId(100U + i), "h" + std::to_string(i)).report_interval_us, 0U);
  }
  sessions_.DropSilent();  // counts them
  EXPECT_EQ(Hello(kPeer, "h0").report_interval_us, 40'000U);
  bus_.sent.clear();
  sessions_.SendHeartbeats();
  EXPECT_EQ(std::get<wire::Heartbeat>(bus_.sent.at(0).second.body).report_interval_us, 40'000U);
}

}  // namespace
}  // namespace espalier::controller
