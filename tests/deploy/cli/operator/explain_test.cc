// What `espalier explain` prints for a flow in each state. ESPALIER_WRITE_GOLDEN=1 writes the
// golden file again after an intended change; tests/acceptance/words prints it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "common/base/address/ip_address.h"
#include "controller/state/flows/flow_table.h"
#include "proto/messages.h"
#include "tests/controller/golden_file.h"
#include "tests/deploy/cli/operator/operator_commands_fixture.h"

namespace espalier::cli {
namespace {

using controller::FlowStatus;

// The fixture's flow h0:5 crosses a fabric of two leaves and two spines.
class ExplainTest : public OperatorCommandsTest {
 protected:
  void Explain(FlowStatus status, std::string_view when, const std::string& flow) {
    explained_.insert(status);
    const Outcome outcome = Run({"explain", flow});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::string name{controller::FlowStatusName(status)};
    EXPECT_NE(outcome.out.find(" is " + name), std::string::npos) << outcome.out;
    story_ += fmt::format("# {}: {}\n$ espalier explain {}\n{}\n", name, when, flow, outcome.out);
  }

  std::set<FlowStatus> explained_;
  std::string story_;
};

TEST_F(ExplainTest, ShowsAFlowInEachState) {
  // The report has arrived, and the turn that assigns paths has not run.
  cluster_.Report(0, controller::Cluster::Opening(cluster_, 0, {{.id = 6, .to = 3, .job = "A"}}));
  Explain(FlowStatus::kNew, "reported, and waits for the next assignment", "h0:6");
  cluster_.Settle();  // it gets its path before others

  cluster_.host(1).answers_probes = false;
  cluster_.Open(1, {{.id = 7, .to = 2, .job = "A"}});
  cluster_.Settle();
  Explain(FlowStatus::kLearning, "has a path, and no probe has found a port of it yet", "h1:7");

  cluster_.host(3).answers_probes = false;
  cluster_.Open(3, {{.id = 8, .to = 1, .job = "B", .port = 50'000, .steered = true}});
  cluster_.Settle();
  Explain(FlowStatus::kAdopting, "an earlier controller steered it; probes look for its path",
          "h3:8");

  cluster_.Advance(std::chrono::seconds(1));
  Explain(FlowStatus::kRouted, "has a path, and the port that selects it", "h0:5");

  cluster_.Open(2, {{.id = 9, .to = 3, .job = "B"}});
  cluster_.Settle();
  Explain(FlowStatus::kLocal, "both ends are on one leaf", "h2:9");

  cluster_.Open(2, {{.id = 11, .to = 0, .job = "B", .port = 50'002, .path_fixed = true}});
  cluster_.Settle();
  Explain(FlowStatus::kFixed, "a rank plan has its path", "h2:11");

  wire::FlowReport report =
      controller::Cluster::Opening(cluster_, 2, {{.id = 10, .to = 0, .job = "B"}});
  report.addresses.back() = *IpAddress::Parse("192.0.2.1");
  cluster_.Report(2, std::move(report));
  cluster_.Settle();
  Explain(FlowStatus::kUnroutable, "the topology file does not name its destination", "h2:10");

  ASSERT_EQ(Run({"fail", "node", "spine0"}).exit_code, 0);
  ASSERT_EQ(Run({"fail", "node", "spine1", "--force"}).exit_code, 0);
  Explain(FlowStatus::kUnroutable, "no path is usable", "h0:5");

  ASSERT_EQ(Run({"restore", "node", "spine1"}).exit_code, 0);
  ASSERT_EQ(Run({"steering", "off", "--host", "h0"}).exit_code, 0);
  Explain(FlowStatus::kUnsteered, "operators do not want flows of its host steered", "h0:5");

  for (int status = 0; status <= static_cast<int>(FlowStatus::kUnroutable); ++status) {
    EXPECT_TRUE(explained_.contains(static_cast<FlowStatus>(status))) << status;
  }
  golden::ExpectGolden(ESPALIER_GOLDEN "/explain.txt", story_);
}

}  // namespace
}  // namespace espalier::cli
