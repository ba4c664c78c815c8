#include "deploy/cli/doctor/nccl_checks.h"

#include <algorithm>

#include "tests/deploy/cli/doctor/recorded_host.h"

namespace espalier::doctor {
namespace {

// The finding of a variable; none of that subject: skipped.
Finding Of(const std::vector<Finding>& findings, const std::string& subject) {
  const auto found = std::ranges::find(findings, subject, &Finding::subject);
  return found == findings.end() ? Finding{"", "", "", State::kSkipped, "", ""} : *found;
}

TEST(NcclChecks, AreSkippedWithoutVariables) {
  RecordedHost host;
  host.view.environment = {{"PATH", "/bin"}, {"NOT_NCCL_IB_DISABLE", "1"}};
  EXPECT_EQ(Only(host.Run(CheckNccl), "no variable of NCCL"), State::kSkipped);
}

TEST(NcclChecks, NameWhatTakesTrafficOffRoce) {
  RecordedHost host;
  host.AddDevice();
  for (const auto& [name, value, subject, state] :
       {std::tuple("NCCL_IB_DISABLE", "1", "NCCL_NET", State::kFailed),
        {"NCCL_NET", "Socket", "NCCL_NET", State::kFailed},
        {"NCCL_IB_DISABLE", "0", "NCCL_NET", State::kSkipped},
        {"NCCL_NET_PLUGIN", "spcx", "NCCL_NET_PLUGIN", State::kWarning},
        {"NCCL_NET_PLUGIN", "none", "NCCL_NET_PLUGIN", State::kSkipped},
        {"NCCL_IB_ADAPTIVE_ROUTING", "1", "NCCL_IB_ADAPTIVE_ROUTING", State::kWarning},
        {"NCCL_IB_TC", "106", "NCCL_IB_TC", State::kOk},
        {"NCCL_IB_TC", "0x6a", "NCCL_IB_TC", State::kFailed},
        {"NCCL_IB_TC", "256", "NCCL_IB_TC", State::kFailed},
        {"NCCL_IB_TIMEOUT", "22", "NCCL_IB_TIMEOUT", State::kWarning},
        {"NCCL_IB_TIMEOUT", "14", "NCCL_IB_TIMEOUT", State::kOk},
        {"NCCL_IB_TIMEOUT", "0", "NCCL_IB_TIMEOUT", State::kFailed},
        {"NCCL_IB_TIMEOUT", "99999999999999999999", "NCCL_IB_TIMEOUT", State::kFailed},
        {"NCCL_IB_HCA", "mlx5", "NCCL_IB_HCA", State::kOk},
        {"NCCL_IB_HCA", "=mlx5_0:1,mlx5_9", "NCCL_IB_HCA", State::kOk},
        {"NCCL_IB_HCA", "=mlx5", "NCCL_IB_HCA", State::kFailed},
        {"NCCL_IB_HCA", "^mlx5_0", "NCCL_IB_HCA", State::kFailed},
        {"NCCL_IB_HCA", "^=mlx5_1", "NCCL_IB_HCA", State::kOk},
        {"NCCL_IB_HCA", ",,,:", "NCCL_IB_HCA", State::kFailed}}) {
    host.view.environment = {{name, value}};
    const Finding finding = Of(host.Run(CheckNccl), subject);
    EXPECT_EQ(finding.state, state) << name << "=" << value << ": " << finding.found;
    EXPECT_EQ(finding.remedy.empty(), state == State::kOk || state == State::kSkipped);
  }
}

TEST(NcclChecks, ReadTheFileOfTheMachineAfterTheEnvironment) {
  RecordedHost host;
  host.Write("/etc/nccl.conf", "# a comment\nNCCL_IB_TIMEOUT=14 \nNCCL_IB_TC=106\nPATH=/\n=\n");
  EXPECT_EQ(Of(host.Run(CheckNccl), "NCCL_IB_TIMEOUT").state, State::kOk);
  host.view.environment["NCCL_IB_TIMEOUT"] = "22";
  EXPECT_EQ(Of(host.Run(CheckNccl), "NCCL_IB_TIMEOUT").state, State::kWarning);
  EXPECT_EQ(Of(host.Run(CheckNccl), "NCCL_IB_TC").state, State::kOk);
}

TEST(ShimCheck, FindsTheLibraryInTheEnvironmentOrTheProcess) {
  RecordedHost host;
  EXPECT_EQ(Only(host.Run(CheckShim), "no RDMA device"), State::kSkipped);
  host.AddDevice();
  EXPECT_EQ(Only(host.Run(CheckShim), "without Espalier"), State::kWarning);
  host.view.environment["NCCL_IBVERBS_LIB"] = "libespalier-verbs.so";
  EXPECT_EQ(Only(host.Run(CheckShim), "NCCL_IBVERBS_LIB=libespalier-verbs.so"), State::kOk);
  host.view.environment["ESPALIER_VERBS"] = "off";
  EXPECT_EQ(Only(host.Run(CheckShim), "ESPALIER_VERBS=off"), State::kFailed);
  host.view.environment.clear();
  host.Write("/etc/ld.so.preload", "/opt/espalier/reach/libespalier-verbs.so\n");
  EXPECT_EQ(Only(host.Run(CheckShim), "ld.so.preload"), State::kOk);
  // What the process has loaded counts more than what its variables say.
  host.view.environment["LD_PRELOAD"] = "libespalier-verbs.so";
  host.view.environment_of = "process 17";
  host.view.loads_shim = false;
  EXPECT_EQ(Only(host.Run(CheckShim), "process 17 has not loaded"), State::kWarning);
  host.view.loads_shim = true;
  EXPECT_EQ(Only(host.Run(CheckShim), "process 17 has loaded it"), State::kOk);
}

}  // namespace
}  // namespace espalier::doctor
