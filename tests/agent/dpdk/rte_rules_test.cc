// Tests the rules that RteRules gives to a driver. This file is the driver: its functions replace
// those of DPDK's library.
#include "agent/dpdk/offload/rte_rules.h"

#include <gtest/gtest.h>
#include <rte_errno.h>
#include <rte_flow.h>

#include <array>
#include <cerrno>
#include <functional>
#include <set>
#include <vector>

#include "tests/agent/dpdk/roce_frames.h"

namespace {

// A rule as the driver got it, with copies of what its pointers refer to.
struct Said {
  std::uint16_t port = 0;
  rte_flow_attr attributes{};
  std::vector<rte_flow_item_type> items;
  std::vector<rte_flow_action_type> actions;
  std::uint16_t from = 0;  // items and actions of ports
  std::uint16_t to = 0;
  rte_flow_item_ipv4 v4{};
  rte_flow_item_ipv6 v6{};
  rte_flow_item_udp udp{};
  rte_flow_item_udp udp_mask{};
  rte_flow_item_raw raw{};
  std::vector<std::uint8_t> raw_bytes;
  std::vector<std::uint8_t> raw_mask_bytes;
  std::uint16_t set_port = 0;  // as it goes into the packet
  std::uint32_t jump = 0;
};

struct Driver {
  std::function<int(const Said&)> validate = [](const Said&) { return 0; };
  std::function<int(const Said&)> create = [](const Said&) { return 0; };
  std::vector<Said> created;
  std::array<char, 64> places{};  // their addresses are those of rules
  std::set<rte_flow*> rules;
  rte_flow_query_count counts{};
  int query_status = 0;
  int flushed = 0;
};
Driver* driver = nullptr;

template <typename T>
T At(const void* pointer) {
  T value;
  std::memcpy(&value, pointer, sizeof(value));
  return value;
}

void Copy(const rte_flow_item& item, Said& said) {
  said.items.push_back(item.type);
  switch (item.type) {
    case RTE_FLOW_ITEM_TYPE_REPRESENTED_PORT:
      said.from = At<rte_flow_item_ethdev>(item.spec).port_id;
      break;
    case RTE_FLOW_ITEM_TYPE_IPV4:
      if (item.spec != nullptr) said.v4 = At<rte_flow_item_ipv4>(item.spec);
      break;
    case RTE_FLOW_ITEM_TYPE_IPV6:
      if (item.spec != nullptr) said.v6 = At<rte_flow_item_ipv6>(item.spec);
      break;
    case RTE_FLOW_ITEM_TYPE_UDP:
      said.udp = At<rte_flow_item_udp>(item.spec);
      said.udp_mask = At<rte_flow_item_udp>(item.mask);
      break;
    case RTE_FLOW_ITEM_TYPE_RAW: {
      said.raw = At<rte_flow_item_raw>(item.spec);
      said.raw_bytes.assign(said.raw.pattern, said.raw.pattern + said.raw.length);
      const auto mask = At<rte_flow_item_raw>(item.mask);
      said.raw_mask_bytes.assign(mask.pattern, mask.pattern + said.raw.length);
      break;
    }
    default:
      break;
  }
}

void Copy(const rte_flow_action& action, Said& said) {
  said.actions.push_back(action.type);
  switch (action.type) {
    case RTE_FLOW_ACTION_TYPE_SET_TP_SRC:
      said.set_port = At<rte_flow_action_set_tp>(action.conf).port;
      break;
    case RTE_FLOW_ACTION_TYPE_MODIFY_FIELD: {
      const auto modify = At<rte_flow_action_modify_field>(action.conf);
      EXPECT_EQ(modify.operation, RTE_FLOW_MODIFY_SET);
      EXPECT_EQ(modify.dst.field, RTE_FLOW_FIELD_UDP_PORT_SRC);
      EXPECT_EQ(modify.src.field, RTE_FLOW_FIELD_VALUE);
      EXPECT_EQ(modify.width, 16U);
      said.set_port = At<std::uint16_t>(modify.src.value);
      break;
    }
    case RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT:
    case RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR:
      said.to = At<rte_flow_action_ethdev>(action.conf).port_id;
      break;
    case RTE_FLOW_ACTION_TYPE_JUMP:
      said.jump = At<rte_flow_action_jump>(action.conf).group;
      break;
    default:
      break;
  }
}

Said Copy(std::uint16_t port, const rte_flow_attr& attributes, const rte_flow_item* item,
          const rte_flow_action* action) {
  Said said{.port = port, .attributes = attributes};
  for (; item->type != RTE_FLOW_ITEM_TYPE_END; ++item) Copy(*item, said);
  for (; action->type != RTE_FLOW_ACTION_TYPE_END; ++action) Copy(*action, said);
  return said;
}

}  // namespace

extern "C" {
int rte_flow_validate(std::uint16_t port, const rte_flow_attr* attributes,
                      const rte_flow_item pattern[], const rte_flow_action actions[],
                      rte_flow_error* error) {
  error->message = "of the test";
  return driver->validate(Copy(port, *attributes, pattern, actions));
}
rte_flow* rte_flow_create(std::uint16_t port, const rte_flow_attr* attributes,
                          const rte_flow_item pattern[], const rte_flow_action actions[],
                          rte_flow_error* /*error*/) {
  const Said said = Copy(port, *attributes, pattern, actions);
  rte_errno = driver->create(said);
  if (rte_errno != 0) return nullptr;
  driver->created.push_back(said);
  auto* const rule = reinterpret_cast<rte_flow*>(&driver->places.at(driver->created.size()));
  driver->rules.insert(rule);
  return rule;
}
int rte_flow_destroy(std::uint16_t /*port*/, rte_flow* rule, rte_flow_error* /*error*/) {
  return driver->rules.erase(rule) == 1 ? 0 : -EINVAL;
}
int rte_flow_query(std::uint16_t /*port*/, rte_flow* rule, const rte_flow_action* action,
                   void* data, rte_flow_error* /*error*/) {
  EXPECT_TRUE(driver->rules.contains(rule));
  EXPECT_EQ(action->type, RTE_FLOW_ACTION_TYPE_COUNT);
  std::memcpy(data, &driver->counts, sizeof(driver->counts));
  return driver->query_status;
}
int rte_flow_flush(std::uint16_t /*port*/, rte_flow_error* /*error*/) {
  driver->rules.clear();
  ++driver->flushed;
  return 0;
}
int rte_flow_pick_transfer_proxy(std::uint16_t port, std::uint16_t* proxy,
                                 rte_flow_error* /*error*/) {
  *proxy = static_cast<std::uint16_t>(port + 100);
  return 0;
}
}

namespace espalier::dpdk {
namespace {

class Rules : public ::testing::Test {
 protected:
  Rules() { driver = &driver_; }
  ~Rules() override { driver = nullptr; }
  Rules(const Rules&) = delete;
  Rules& operator=(const Rules&) = delete;

  static DeviceRule RuleOf(const RoceFrame& frame) {
    BuiltFrame built = Build(frame);
    const RocePacket packet =
        ParseRoce(built.bytes.data(), static_cast<std::uint32_t>(built.bytes.size()));
    return {.key = KeyOf(packet),
            .own_port = frame.source_port,
            .port = 0xF123,
            .vlan_tags = packet.vlan_tags};
  }
  std::unique_ptr<RteRules> Open(std::uint32_t group = 0) {
    auto rules = RteRules::Open({.host_port = 3, .fabric_port = 5, .group = group});
    EXPECT_TRUE(rules);
    return std::move(*rules);
  }

  Driver driver_;
};

TEST_F(Rules, MatchAQueuePairsPacketsAndSetTheirPort) {
  const auto rules = Open();
  DeviceRule rule = RuleOf({.source_port = 0xC001, .destination_qpn = 0xABCDEF});
  rule.level = 1;
  ASSERT_TRUE(rules->Create(rule));
  ASSERT_EQ(driver_.created.size(), 1U);
  const Said& said = driver_.created[0];
  EXPECT_EQ(said.port, 103) << "the port that takes rules for the switch";
  EXPECT_EQ(said.attributes.transfer, 1U);
  EXPECT_EQ(said.attributes.priority, 1U);
  EXPECT_EQ(said.attributes.group, 0U);
  EXPECT_EQ(said.items,
            (std::vector<rte_flow_item_type>{RTE_FLOW_ITEM_TYPE_REPRESENTED_PORT,
                                             RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV4,
                                             RTE_FLOW_ITEM_TYPE_UDP, RTE_FLOW_ITEM_TYPE_RAW}));
  EXPECT_EQ(said.from, 3);
  EXPECT_EQ(rte_be_to_cpu_32(said.v4.hdr.src_addr), 0x0A000001U);
  EXPECT_EQ(rte_be_to_cpu_32(said.v4.hdr.dst_addr), 0x0A000101U);
  EXPECT_EQ(rte_be_to_cpu_16(said.udp.hdr.src_port), 0xC001);
  EXPECT_EQ(rte_be_to_cpu_16(said.udp.hdr.dst_port), 4791);
  EXPECT_EQ(said.udp_mask.hdr.src_port, 0xFFFF);
  EXPECT_EQ(said.udp_mask.hdr.dst_port, 0xFFFF);
  EXPECT_EQ(said.raw.relative, 1U);
  EXPECT_EQ(said.raw.search, 0U);
  EXPECT_EQ(said.raw.offset, 5);
  EXPECT_EQ(said.raw_bytes, (Bytes{0xAB, 0xCD, 0xEF}));
  EXPECT_EQ(said.raw_mask_bytes, (Bytes{0xFF, 0xFF, 0xFF}));
  EXPECT_EQ(said.actions, (std::vector<rte_flow_action_type>{
                              RTE_FLOW_ACTION_TYPE_SET_TP_SRC, RTE_FLOW_ACTION_TYPE_COUNT,
                              RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT}));
  EXPECT_EQ(rte_be_to_cpu_16(said.set_port), 0xF123);
  EXPECT_EQ(said.to, 5);
}

TEST_F(Rules, MatchIpv6BehindATag) {
  const auto rules = Open();
  ASSERT_TRUE(rules->Create(
      RuleOf({.vlan_types = {0x8100}, .source = "fd00::1", .destination = "fd00:1::9"})));
  const Said& said = driver_.created.at(0);
  EXPECT_EQ(said.items, (std::vector<rte_flow_item_type>{
                            RTE_FLOW_ITEM_TYPE_REPRESENTED_PORT, RTE_FLOW_ITEM_TYPE_ETH,
                            RTE_FLOW_ITEM_TYPE_VLAN, RTE_FLOW_ITEM_TYPE_IPV6,
                            RTE_FLOW_ITEM_TYPE_UDP, RTE_FLOW_ITEM_TYPE_RAW}));
  const auto source = At<std::array<std::uint8_t, 16>>(&said.v6.hdr.src_addr);
  const auto destination = At<std::array<std::uint8_t, 16>>(&said.v6.hdr.dst_addr);
  EXPECT_EQ(source[0], 0xFD);
  EXPECT_EQ(source[15], 1);
  EXPECT_EQ(destination[3], 1);
  EXPECT_EQ(destination[15], 9);
}

TEST_F(Rules, HaveTheFormThatTheDriverAccepts) {
  int asked = 0;
  driver_.validate = [&asked](const Said& said) {
    ++asked;
    const bool modifies = said.actions[0] == RTE_FLOW_ACTION_TYPE_MODIFY_FIELD;
    return modifies && said.attributes.ingress == 1 ? 0 : -ENOTSUP;
  };
  const auto rules = Open();
  ASSERT_TRUE(rules->Create(RuleOf({})));
  EXPECT_EQ(rte_be_to_cpu_16(driver_.created.at(0).set_port), 0xF123);
  EXPECT_EQ(asked, 4);
  ASSERT_TRUE(rules->Create(RuleOf({})));
  EXPECT_EQ(asked, 5) << "it has been found out";
}

TEST_F(Rules, SayWhyTheyAreRefused) {
  const auto rules = Open();
  struct Case {
    int status;
    ErrorCode code;
    int asked;
  };
  for (const Case& one :
       {Case{ENOTSUP, ErrorCode::kUnsupported, 4}, Case{ENOSYS, ErrorCode::kUnsupported, 4},
        Case{EINVAL, ErrorCode::kUnsupported, 4}, Case{ENOSPC, ErrorCode::kResourceExhausted, 1},
        Case{ENOMEM, ErrorCode::kResourceExhausted, 1}, Case{EEXIST, ErrorCode::kUnavailable, 1},
        Case{EIO, ErrorCode::kUnavailable, 1}}) {
    int asked = 0;
    driver_.validate = [&](const Said&) {
      ++asked;
      return -one.status;
    };
    const Result<RuleId> validated = rules->Create(RuleOf({}));
    ASSERT_FALSE(validated);
    EXPECT_EQ(validated.error().code, one.code) << one.status;
    EXPECT_NE(validated.error().message.find("port 103: "), std::string::npos);
    EXPECT_NE(validated.error().message.find("of the test"), std::string::npos);
    EXPECT_EQ(asked, one.asked) << one.status;
    // The rule is valid, but the device cannot create it.
    driver_.validate = [](const Said&) { return 0; };
    driver_.create = [&](const Said&) { return one.status; };
    const Result<RuleId> made = rules->Create(RuleOf({}));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, one.code) << one.status;
  }
}

TEST_F(Rules, AreCountedAndRemoved) {
  auto rules = Open();
  const Result<RuleId> first = rules->Create(RuleOf({}));
  ASSERT_TRUE(first);
  ASSERT_TRUE(rules->Create(RuleOf({})));
  EXPECT_FALSE(rules->Read(*first)) << "no hits are known";
  driver_.counts.hits_set = driver_.counts.bytes_set = 1;
  driver_.counts.hits = 7;
  driver_.counts.bytes = 7000;
  const std::optional<DeviceCounts> counts = rules->Read(*first);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->packets, 7U);
  EXPECT_EQ(counts->frame_bytes, 7000U);
  driver_.query_status = -EIO;
  EXPECT_FALSE(rules->Read(*first));
  EXPECT_TRUE(rules->Destroy(*first));
  EXPECT_FALSE(rules->Destroy(*first));
  EXPECT_EQ(driver_.rules.size(), 1U);
  rules.reset();
  EXPECT_TRUE(driver_.rules.empty()) << "they end with the process";
}

TEST_F(Rules, OfAGroupGetRocePacketsAndSendTheRestToTheCores) {
  const auto rules = Open(7);
  ASSERT_EQ(driver_.created.size(), 3U);
  const Said& rest = driver_.created[0];
  EXPECT_EQ(rest.attributes.group, 7U);
  EXPECT_EQ(rest.attributes.priority, 2U) << "behind both levels of rules";
  EXPECT_EQ(rest.actions, std::vector{RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR});
  EXPECT_EQ(rest.to, 3);
  for (const std::size_t i : {1U, 2U}) {
    EXPECT_EQ(driver_.created[i].attributes.group, 0U);
    EXPECT_EQ(driver_.created[i].actions, std::vector{RTE_FLOW_ACTION_TYPE_JUMP});
    EXPECT_EQ(driver_.created[i].jump, 7U);
    EXPECT_EQ(rte_be_to_cpu_16(driver_.created[i].udp.hdr.dst_port), 4791);
  }
  ASSERT_TRUE(rules->Create(RuleOf({})));
  EXPECT_EQ(driver_.created[3].attributes.group, 7U);
}

TEST_F(Rules, OfAGroupThatTheDeviceRefusesLeaveNothingBehind) {
  driver_.validate = [](const Said& said) { return said.attributes.group == 0 ? -ENOTSUP : 0; };
  const auto rules = RteRules::Open({.host_port = 3, .fabric_port = 5, .group = 7});
  ASSERT_FALSE(rules);
  EXPECT_EQ(rules.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(driver_.flushed, 1);
  EXPECT_TRUE(driver_.rules.empty());
}

}  // namespace
}  // namespace espalier::dpdk
