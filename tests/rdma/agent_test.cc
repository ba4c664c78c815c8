// The agent's side of RDMA, on real devices.
#include <gtest/gtest.h>

#include <vector>

#include "agent/verbs/device_report.h"
#include "tests/rdma/rdma_machine.h"

namespace espalier::agent {
namespace {

TEST(RdmaDevices, AreReportedByAddress) {
  const std::vector<DeviceReport> reports = ReportDevices();
  ASSERT_EQ(reports.size(), 2U * rdma::kHosts);
  for (const DeviceReport& report : reports) {
    EXPECT_EQ(verbs::DescribePathControl(report.control), "flow label, live by draining");
  }
}

}  // namespace
}  // namespace espalier::agent
