#include "common/verbs/path_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "common/verbs/source_port.h"
#include "common/verbs/verbs.h"

namespace espalier::verbs {
namespace {

using ::testing::HasSubstr;

// Captured from rdma_rxe of Linux 6.1.
TEST(SourcePort, IsWhatTheKernelMakesOfALabel) {
  EXPECT_EQ(SourcePortOf(0x00001, 17, 17), 49153);
  EXPECT_EQ(SourcePortOf(0x12345, 17, 17), 58177);
  EXPECT_EQ(SourcePortOf(0xABCDE, 17, 17), 64756);
  EXPECT_EQ(SourcePortOf(0xFFFFF, 17, 17), 65472);
  EXPECT_EQ(SourcePortOf(0x00100, 17, 17), 49408);
  EXPECT_EQ(SourcePortOf(0, 17, 17), 49441);
}

TEST(SourcePort, HasALabelForEveryPortThatRoceHas) {
  for (std::uint32_t port = 0; port <= 0xFFFF; ++port) {
    const auto label = FlowLabelFor(static_cast<std::uint16_t>(port));
    ASSERT_EQ(label.has_value(), port >= 0xC000) << port;
    if (!label) continue;
    ASSERT_NE(*label, 0U) << port;
    ASSERT_LT(*label, 1U << 20) << port;
    ASSERT_EQ(SourcePortOf(*label, 5, 7), port);
    ASSERT_EQ(SourcePortOf(*label, 1234, 99), port);
  }
}

TEST(PathControl, TakesTheBestMethodThatWorked) {
  const PathTrial mlx5 = {.driver = "mlx5_core", .drain_error = EINVAL};
  EXPECT_EQ(JudgePathControl(mlx5).live, PortChangeMethod::kSetUdpPort);
  const PathTrial old_mlx5 = {
      .driver = "mlx5_core", .set_udp_port_error = EOPNOTSUPP, .drain_error = EINVAL};
  EXPECT_EQ(JudgePathControl(old_mlx5).live, PortChangeMethod::kNone);
  EXPECT_TRUE(JudgePathControl(old_mlx5).at_connect);
  const PathTrial rxe = {.driver = "rdma_rxe", .set_udp_port_error = EOPNOTSUPP};
  EXPECT_EQ(JudgePathControl(rxe).live, PortChangeMethod::kDrain);
  std::set<std::string> descriptions;
  for (const PathTrial& trial : {mlx5, old_mlx5, rxe}) {
    descriptions.insert(DescribePathControl(JudgePathControl(trial)));
  }
  EXPECT_EQ(descriptions.size(), 3U);
}

TEST(PathControl, CountsOnTheFlowLabelOfDriversWhoseSourceUsesIt) {
  for (const char* const driver : {"irdma", "mana", "ionic", "erdma"}) {
    const PathTrial trial = {
        .driver = driver, .set_udp_port_error = EOPNOTSUPP, .drain_error = EINVAL};
    EXPECT_TRUE(JudgePathControl(trial).at_connect) << driver;
  }
}

TEST(PathControl, SaysWhetherTheDeviceLimitsRates) {
  EXPECT_THAT(DescribeRateControl({}), HasSubstr("not limited: "));
  EXPECT_EQ(DescribeRateControl({.highest_paced_bps = 5'000}),
            "limited by the device, up to 5000 bit/s");
}

TEST(PathControl, IsUnsupportedIfTheSourcePortCannotBeChosen) {
  const PathTrial iwarp = {.is_infiniband = false, .driver = "siw"};
  const PathTrial unknown = {.driver = "bnxt_en"};
  const PathTrial nameless = {};
  const PathTrial broken = {.driver = "mlx5_core", .connect_error = EIO};
  for (const PathTrial& trial : {iwarp, unknown, nameless, broken}) {
    const PathControl control = JudgePathControl(trial);
    EXPECT_FALSE(control.at_connect);
    EXPECT_EQ(control.live, PortChangeMethod::kNone);
    EXPECT_THAT(DescribePathControl(control), HasSubstr("path control unsupported: "));
  }
  EXPECT_THAT(JudgePathControl(iwarp).why_not, HasSubstr("iWARP"));
  EXPECT_THAT(JudgePathControl(unknown).why_not, HasSubstr("bnxt_en"));
}

TEST(Verbs, NameWhatIsMissing) {
  const auto device = OpenDevice("no_such_device");
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::kNotFound);
  const auto address = FindRoceAddress(*IpAddress::Parse("192.0.2.1"));
  ASSERT_FALSE(address);
  EXPECT_EQ(address.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(address.error().message, HasSubstr("192.0.2.1"));
}

}  // namespace
}  // namespace espalier::verbs
