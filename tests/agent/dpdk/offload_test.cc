// Tests which flows a device gets, with a fake device.
#include "agent/dpdk/offload/offload.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "agent/dpdk/flows/packet_steering.h"
#include "tests/agent/dpdk/roce_frames.h"

namespace espalier::dpdk {
namespace {

using std::chrono::milliseconds;

class FakeDevice : public DeviceRules {
 public:
  Result<RuleId> Create(const DeviceRule& rule) override {
    ++asked;
    if (refusal) return Fail(*refusal, "as the test says");
    rules[++last_] = rule;
    said.push_back(fmt::format("+{} {}", rule.port, rule.level));
    return static_cast<RuleId>(last_);
  }
  bool Destroy(RuleId id) override {
    if (keeps_rules) return false;
    const auto rule = rules.find(static_cast<std::uintptr_t>(id));
    EXPECT_NE(rule, rules.end()) << "destroyed twice";
    if (rule == rules.end()) return true;
    said.push_back(fmt::format("-{} {}", rule->second.port, rule->second.level));
    rules.erase(rule);
    return true;
  }
  std::optional<DeviceCounts> Read(RuleId id) override {
    EXPECT_TRUE(rules.contains(static_cast<std::uintptr_t>(id)));
    if (!counts) return std::nullopt;
    return sent[rules.at(static_cast<std::uintptr_t>(id)).port];
  }
  void Flush() override {
    rules.clear();
    said.emplace_back("flush");
  }

  std::optional<ErrorCode> refusal;
  bool keeps_rules = false;
  bool counts = true;
  int asked = 0;
  std::map<std::uintptr_t, DeviceRule> rules;
  std::map<std::uint16_t, DeviceCounts> sent;  // by the rule's port
  std::vector<std::string> said;

 private:
  std::uintptr_t last_ = 0;
};

class DeviceOffload : public ::testing::Test {
 protected:
  static constexpr std::uint16_t kOwnPort = 50'000;

  static RoceFrame FrameOf(std::uint32_t qpn, bool is_v4 = true) {
    RoceFrame frame{.destination_qpn = qpn, .payload = Bytes(1024, 1)};
    if (!is_v4) {
      frame.source = "fd00::1";
      frame.destination = "fd00:1::1";
    }
    return frame;
  }
  // Adds a flow steered to `port`, whose acknowledgements go to its queue pair number plus 0x1000.
  Offload::Flow Open(std::uint32_t qpn, std::uint16_t port, bool is_v4 = true,
                     bool is_paired = true) {
    BuiltFrame built = Build(FrameOf(qpn, is_v4));
    const FlowKey key =
        KeyOf(ParseRoce(built.bytes.data(), static_cast<std::uint32_t>(built.bytes.size())));
    const std::uint32_t slot = *table_.Add(key, FlowKind::kRequests, kOwnPort, 0);
    table_.SetPort(slot, port);
    if (is_paired) table_.Pair(slot, key.Reversed(qpn + 0x1000));
    table_.Publish();
    return {.slot = slot, .own_port = kOwnPort};
  }
  void SendByCore(std::uint32_t qpn, std::uint32_t psn) {
    RoceFrame frame = FrameOf(qpn);
    frame.psn = psn;
    BuiltFrame built = Build(frame);
    const Frame one{built.bytes.data(), static_cast<std::uint32_t>(built.bytes.size())};
    steering_.Outgoing({&one, 1}, 0);
  }
  void Acknowledge(std::uint32_t qpn, std::uint32_t psn) {
    BuiltFrame built = Build({.source = "10.0.1.1",
                              .destination = "10.0.0.1",
                              .opcode = 0x11,
                              .destination_qpn = qpn + 0x1000,
                              .psn = psn,
                              .payload = Aeth(0)});
    const Frame one{built.bytes.data(), static_cast<std::uint32_t>(built.bytes.size())};
    steering_.Incoming({&one, 1}, 0);
  }
  void Look(std::initializer_list<Offload::Flow*> flows, Duration later = milliseconds(10)) {
    now_ += later;
    for (Offload::Flow* const flow : flows) offload_.Update(*flow, now_);
  }
  // The device sends packets and the receiver acknowledges them.
  void Prove(Offload::Flow& flow, std::uint32_t qpn) {
    Look({&flow});
    device_.sent[flow.rule.port].packets += 10;
    Acknowledge(qpn, table_.next_psn(flow.slot) + 9);
    Look({&flow});
    ASSERT_TRUE(flow.id);
    ASSERT_TRUE(flow.is_proven);
  }
  // The device sends packets without an acknowledgement, for longer than kStall.
  void SendToNobody(Offload::Flow& flow) {
    Look({&flow});
    for (int i = 0; i < 12; ++i) {
      device_.sent[flow.rule.port].packets += 10;
      Look({&flow});
    }
  }
  double Metric(const std::string& name) {
    const std::string text = metrics_.Text();
    const std::size_t at = text.find("\nespalier_dpdk_" + name + " ");
    return at == std::string::npos ? -99 : std::stod(text.substr(at + name.size() + 16));
  }

  const IcrcPatch patch_;
  FakeDevice device_;
  Metrics metrics_;
  DatapathFlowTable table_{16, 1};
  PacketSteering steering_{table_, 0, patch_};
  Offload offload_{&device_, table_, metrics_};
  TimePoint now_{};
};

TEST_F(DeviceOffload, IsOfSteeredFlowsWhoseAcknowledgementsAreKnown) {
  Offload::Flow unknown = Open(0x20, 61'001, true, false);
  Offload::Flow own = Open(0x21, 0);
  Offload::Flow same = Open(0x22, kOwnPort);
  Offload::Flow tags = Open(0x23, 61'001);
  tags.vlan_tags = 2;
  Offload::Flow responses = Open(0x24, 61'001);
  responses.kind = FlowKind::kResponses;
  Look({&unknown, &own, &same, &tags, &responses});
  EXPECT_EQ(device_.asked, 0);
  Offload::Flow flow = Open(0x25, 61'001);
  flow.vlan_tags = 1;
  Look({&flow});
  ASSERT_EQ(device_.rules.size(), 1U);
  EXPECT_EQ(device_.rules.begin()->second, (DeviceRule{.key = table_.key(flow.slot),
                                                       .own_port = kOwnPort,
                                                       .port = 61'001,
                                                       .vlan_tags = 1,
                                                       .level = 1}));
  EXPECT_EQ(Metric("offloaded_flows"), 1);
  // Back to its own port.
  table_.SetPort(flow.slot, 0);
  Look({&flow});
  EXPECT_TRUE(device_.rules.empty());
  EXPECT_EQ(Metric("offloaded_flows"), 0);
}

TEST_F(DeviceOffload, IsTriedWithOneFlowUntilAReceiverAcknowledgesIt) {
  Offload::Flow first = Open(0x20, 61'001);
  Offload::Flow second = Open(0x21, 61'002);
  for (std::uint32_t psn = 0; psn < 5; ++psn) SendByCore(0x20, psn);
  Look({&first, &second});
  EXPECT_EQ(device_.rules.size(), 1U);
  // Cores have sent these.
  device_.sent[61'001].packets = 3;
  Acknowledge(0x20, 4);
  Look({&first, &second});
  EXPECT_EQ(device_.rules.size(), 1U);
  EXPECT_EQ(Metric("offload_trusted"), 0);
  Acknowledge(0x20, 5);
  Look({&first, &second});
  EXPECT_EQ(Metric("offload_trusted"), 1);
  EXPECT_EQ(device_.rules.size(), 2U);
  EXPECT_EQ(Metric("offload_rules_total"), 2);
}

TEST_F(DeviceOffload, EndsForAnUnacknowledgedFlowUntilItHasAnotherPort) {
  Offload::Flow flow = Open(0x20, 61'001);
  SendToNobody(flow);
  EXPECT_TRUE(device_.rules.empty());
  EXPECT_EQ(Metric("offload_stalled_total"), 1);
  Look({&flow}, std::chrono::seconds(5));
  EXPECT_TRUE(device_.rules.empty());
  table_.SetPort(flow.slot, 61'002);
  Look({&flow});
  EXPECT_EQ(device_.rules.size(), 1U);
}

TEST_F(DeviceOffload, EndsForAllWhereReceiversDropWhatTheDeviceRewrites) {
  for (std::uint16_t i = 0; i < Offload::kStrikes; ++i) {
    Offload::Flow flow = Open(0x20U + i, static_cast<std::uint16_t>(61'001 + i));
    SendToNobody(flow);
    EXPECT_FALSE(flow.id);
  }
  EXPECT_EQ(Metric("offload_trusted"), -1);
  EXPECT_EQ(device_.said.back(), "flush");
  const int asked = device_.asked;
  Offload::Flow next = Open(0x30, 61'010);
  Look({&next});
  EXPECT_EQ(device_.asked, asked);
}

TEST_F(DeviceOffload, GoesOnForOthersWhereADeadPathTakesOneFlow) {
  Offload::Flow good = Open(0x20, 61'001);
  Prove(good, 0x20);
  for (std::uint16_t i = 0; i < 2 * Offload::kStrikes; ++i) {
    Offload::Flow dead = Open(0x21U + i, static_cast<std::uint16_t>(61'002 + i));
    SendToNobody(dead);
    EXPECT_FALSE(dead.id);
  }
  EXPECT_EQ(Metric("offload_stalled_total"), 2 * Offload::kStrikes);
  EXPECT_EQ(Metric("offload_trusted"), 1);
  EXPECT_TRUE(good.id);
}

TEST_F(DeviceOffload, KeepsAFlowThatRestsWithAllAcknowledged) {
  Offload::Flow flow = Open(0x20, 61'001);
  Prove(flow, 0x20);
  // Counts that come later than the acknowledgements do.
  Acknowledge(0x20, 19);
  Look({&flow});
  device_.sent[61'001].packets = 20;
  for (int i = 0; i < 30; ++i) Look({&flow});
  EXPECT_TRUE(flow.id);
  EXPECT_EQ(Metric("offload_stalled_total"), 0);
}

TEST_F(DeviceOffload, HasANewPortsRuleBeforeTheOldOneEnds) {
  Offload::Flow flow = Open(0x20, 61'001);
  for (const std::uint16_t port : std::array<std::uint16_t, 3>{61'001, 61'002, 61'003}) {
    table_.SetPort(flow.slot, port);
    Look({&flow});
  }
  offload_.Remove(flow);
  EXPECT_EQ(device_.said, (std::vector<std::string>{"+61001 1", "+61002 0", "-61001 1", "+61003 1",
                                                    "-61002 0", "-61003 1"}));
  EXPECT_EQ(Metric("offloaded_flows"), 0);
}

TEST_F(DeviceOffload, LeavesRefusedKindsOfRulesToTheCores) {
  device_.refusal = ErrorCode::kUnsupported;
  Offload::Flow v4 = Open(0x20, 61'001);
  Offload::Flow another_v4 = Open(0x21, 61'002);
  Offload::Flow v6 = Open(0x22, 61'003, false);
  Look({&v4, &another_v4, &v6});
  Look({&v4, &another_v4, &v6}, std::chrono::seconds(10));
  EXPECT_EQ(device_.asked, 2);
  EXPECT_EQ(Metric("offload_unsupported_total"), 2);
  EXPECT_EQ(Metric("offloaded_flows"), 0);
}

TEST_F(DeviceOffload, AsksAFullDeviceAgainLater) {
  Offload::Flow proven = Open(0x20, 61'001);
  Prove(proven, 0x20);
  device_.refusal = ErrorCode::kResourceExhausted;
  Offload::Flow flow = Open(0x21, 61'002);
  for (int i = 0; i < 10; ++i) Look({&proven, &flow});
  EXPECT_EQ(Metric("offload_no_room_total"), 1);
  device_.refusal.reset();
  // Without room for its new port the flow goes to the cores; with the old rule it would keep the
  // old port.
  table_.SetPort(proven.slot, 61'005);
  Look({&proven, &flow});
  EXPECT_TRUE(device_.rules.empty());
  Look({&proven, &flow}, Offload::kRest);
  EXPECT_EQ(device_.rules.size(), 2U);
}

TEST_F(DeviceOffload, LeavesFlowsWithOtherErrorsToTheCores) {
  Offload::Flow flow = Open(0x20, 61'001);
  device_.refusal = ErrorCode::kUnavailable;
  Look({&flow});
  device_.refusal.reset();
  Look({&flow}, std::chrono::seconds(10));
  EXPECT_EQ(device_.asked, 1);
  EXPECT_EQ(Metric("offload_failed_total"), 1);
  table_.SetPort(flow.slot, 61'002);
  Look({&flow});
  ASSERT_TRUE(flow.id);
  // A rule without counts is removed.
  device_.counts = false;
  Look({&flow});
  EXPECT_FALSE(flow.id);
  EXPECT_TRUE(device_.rules.empty());
  EXPECT_EQ(Metric("offload_failed_total"), 2);
}

TEST_F(DeviceOffload, EndsForAllIfARuleIsNotRemoved) {
  Offload::Flow flow = Open(0x20, 61'001);
  Prove(flow, 0x20);
  Offload::Flow other = Open(0x21, 61'002);
  Look({&flow, &other});
  EXPECT_EQ(device_.rules.size(), 2U);
  device_.keeps_rules = true;
  offload_.Remove(flow);
  EXPECT_EQ(device_.said.back(), "flush");
  Look({&other});
  EXPECT_FALSE(other.id);
  EXPECT_EQ(Metric("offloaded_flows"), 0);
  EXPECT_EQ(Metric("offload_trusted"), -1);
}

TEST_F(DeviceOffload, CountsWhatTheDeviceSentToo) {
  Offload::Flow flow = Open(0x20, 61'001);
  for (std::uint32_t psn = 0; psn < 3; ++psn) SendByCore(0x20, psn);
  Look({&flow});
  const std::uint64_t frame_bytes = Build(FrameOf(0x20)).bytes.size();
  device_.sent[61'001] = {10, 10 * frame_bytes};
  Acknowledge(0x20, 12);
  Look({&flow});
  table_.SetPort(flow.slot, 61'002);
  Look({&flow});
  device_.sent[61'002] = {4, 4 * frame_bytes};
  Look({&flow});
  const FlowCounts total = offload_.Total(flow);
  EXPECT_EQ(total.packets, 17U);
  EXPECT_EQ(total.bytes, 17U * 1024);
}

// The gap is larger than any that cores accept.
TEST_F(DeviceOffload, LeavesNoGapToTheCoresThatGoOn) {
  constexpr std::uint32_t kFar = 5'000'000;
  Offload::Flow flow = Open(0x20, 61'001);
  SendByCore(0x20, 0);
  Look({&flow});
  device_.sent[61'001].packets = kFar;
  Acknowledge(0x20, kFar);
  Look({&flow});
  table_.SetPort(flow.slot, 61'002);
  device_.refusal = ErrorCode::kResourceExhausted;
  Look({&flow});
  ASSERT_FALSE(flow.id);
  SendByCore(0x20, kFar + 30);
  EXPECT_FALSE(steering_.events().Pop()) << "taken for another queue pair";
  EXPECT_EQ(table_.Read(flow.slot).retries, 0U);
  EXPECT_EQ(table_.next_psn(flow.slot), kFar + 31);
}

}  // namespace
}  // namespace espalier::dpdk
