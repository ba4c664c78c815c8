// Whether ports in use still lead to their paths.
#include "controller/placement/port_verifier.h"

#include <gtest/gtest.h>

#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr const char* kMismatches = "espalier_controller_path_map_mismatches_total";

TEST(PortVerifierTest, FindsOutWhenAPortLeadsElsewhere) {
  Cluster cluster(kFourLeaves, {.verify_interval = 100ms});
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 4}});
  cluster.Settle();
  ASSERT_EQ(cluster.AppliedSpine(0, 1, 4), 0);
  const auto before = cluster.hash;
  cluster.hash = [before](int from, int to, std::uint16_t port) {
    return (before(from, to, port) + 1) % 4;
  };
  cluster.Advance(3s);
  EXPECT_GE(cluster.CounterValue(kMismatches), 1);
  EXPECT_EQ(cluster.AppliedSpine(0, 1, 4), 0);
}

}  // namespace
}  // namespace espalier::controller
