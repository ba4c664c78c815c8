#include "controller/offline/imports/device_kinds.h"

#include <gtest/gtest.h>

#include <utility>

namespace espalier::imports {
namespace {

// "x:e0 y:p0" are a cable; ports are optional.
Joined Make(const std::vector<std::pair<std::string, std::string>>& cables) {
  Cabling cabling;
  for (const auto& [a, b] : cables) {
    Cable& cable = cabling.cables.emplace_back();
    for (const auto& [text, end] : {std::pair(a, &cable.a), std::pair(b, &cable.b)}) {
      const std::size_t colon = text.find(':');
      end->device = text.substr(0, colon);
      end->port = colon == std::string::npos ? "" : text.substr(colon + 1);
    }
  }
  return *JoinSources({&cabling, 1});
}

std::string Kinds(const Joined& joined) {
  std::string text;
  for (const Device& device : joined.devices) {
    const bool is_switch = device.kind == DeviceKind::kSwitch;
    text += device.name + (is_switch                          ? "=switch "
                           : device.kind == DeviceKind::kHost ? "=host "
                                                              : "=? ");
  }
  return text;
}

TEST(DeviceKinds, FollowNamesThenPortsThenCabling) {
  Joined joined = Make({{"rack1-leaf0", "a"}, {"x:swp1", "dgx-07"}, {"m", "n"}, {"x:swp2", "m"}});
  const auto said = ChooseKinds(joined, {});
  ASSERT_TRUE(said.has_value()) << said.error().message;
  EXPECT_EQ(Kinds(joined), "x=switch rack1-leaf0=switch a=host dgx-07=host m=switch n=host ");
  EXPECT_EQ(*said, (std::vector<std::string>{"by their names, switches are rack1-leaf0",
                                             "by their names, hosts are dgx-07",
                                             "by the names of their ports, switches are x",
                                             "as they have one cable, hosts are a and n",
                                             "as hosts are cabled to them, switches are m"}));
}

TEST(DeviceKinds, FollowPatternsFirstAndAskWhereNothingDecides) {
  const std::vector<std::pair<std::string, std::string>> square = {
      {"A1", "B1"}, {"B1", "A2"}, {"A2", "B2"}, {"B2", "A1"}};
  Joined joined = Make(square);
  const auto unknown = ChooseKinds(joined, {});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().message,
            "nothing says whether A1, B1, A2 and B2 are switches or hosts (write --switches or "
            "--hosts with patterns of their names)");
  joined = Make(square);
  ASSERT_TRUE(ChooseKinds(joined, {.switches = {"A*"}, .hosts = {"b?"}}).has_value());
  EXPECT_EQ(Kinds(joined), "A1=switch B1=host A2=switch B2=host ");
  joined = Make(square);
  EXPECT_EQ(ChooseKinds(joined, {.switches = {"c*"}}).error().message,
            "--switches \"c*\": no device has such a name (correct the pattern)");
  joined = Make(square);
  EXPECT_TRUE(
      ChooseKinds(joined, {.switches = {"*"}, .hosts = {"a1"}})
          .error()
          .message.starts_with("--hosts \"a1\": a file (or the other option) says that A1"));
  // Words of both sorts decide nothing.
  joined = Make({{"node-switch", "leaf0"}, {"node-switch", "leaf1"}});
  EXPECT_FALSE(ChooseKinds(joined, {}).has_value());
}

TEST(DeviceKinds, RolesFollowTheDistanceFromHosts) {
  Joined joined = Make({{"h0", "sw0"},
                        {"sw0", "sw1"},
                        {"sw1", "sw2"},
                        {"sw2", "sw3"},
                        {"sw1", "leaf9"},
                        {"sw8", "sw9"}});
  ASSERT_TRUE(ChooseKinds(joined, {}).has_value());
  const auto said = ChooseRoles(joined);
  std::string roles;
  for (const Device& device : joined.devices) {
    roles += device.name + "=" + std::string(fabric::SwitchRoleName(device.role)) + " ";
  }
  EXPECT_EQ(roles, "h0=NONE sw0=LEAF sw1=SPINE sw2=CORE sw3=CORE leaf9=LEAF sw8=CORE sw9=CORE ");
  EXPECT_EQ(said.size(), 3U);
  // Roles of files stay, and one that hosts contradict is named.
  joined = Make({{"h0", "sw0"}, {"sw0", "sw1"}});
  joined.devices[1].role = fabric::SwitchRole::kSpine;
  ASSERT_TRUE(ChooseKinds(joined, {}).has_value());
  const auto contradicted = ChooseRoles(joined);
  EXPECT_EQ(joined.devices[1].role, fabric::SwitchRole::kSpine);
  ASSERT_FALSE(contradicted.empty());
  EXPECT_NE(contradicted.back().find("above the leaves, though hosts are at them: sw0"),
            std::string::npos);
  // Without hosts there are none.
  joined = Make({{"sw0", "sw1"}});
  ASSERT_TRUE(ChooseKinds(joined, {}).has_value());
  EXPECT_TRUE(ChooseRoles(joined).empty());
}

}  // namespace
}  // namespace espalier::imports
