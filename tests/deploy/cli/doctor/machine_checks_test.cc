#include "deploy/cli/doctor/machine_checks.h"

#include "tests/deploy/cli/doctor/recorded_host.h"

namespace espalier::doctor {
namespace {

TEST(MachineChecks, CompareTheKernelWithTheOldestTested) {
  RecordedHost host;
  EXPECT_EQ(Only(host.Run(CheckKernel), "cannot be read"), State::kSkipped);
  for (const auto& [release, state] : {std::pair("6.1.0-56-amd64\n", State::kOk),
                                       {"5.15.0-generic", State::kWarning},
                                       {"6.0.1", State::kWarning},
                                       {"10.0", State::kOk},
                                       {"none", State::kSkipped},
                                       {"999999999999.1", State::kSkipped},
                                       {"\x1b[2J", State::kSkipped}}) {
    host.Write("/proc/sys/kernel/osrelease", release);
    EXPECT_EQ(Only(host.Run(CheckKernel), ""), state) << release;
  }
}

TEST(MachineChecks, ReadTheClock) {
  RecordedHost host;
  EXPECT_EQ(Only(host.Run(CheckClock), "wrong by at most 2 ms"), State::kOk);
  host.clock.is_synchronised = false;
  EXPECT_EQ(Only(host.Run(CheckClock), "not synchronised"), State::kWarning);
}

TEST(MachineChecks, CompareVersionsOfPackages) {
  RecordedHost host;
  EXPECT_EQ(Only(host.Run(CheckVersions), "not known"), State::kSkipped);
  host.programs["dpkg-query"] =
      "installed espalier 0.2.0\ninstalled espalier-agent 0.2.0\nnot-installed espalier-dpdk \n"
      "config-files libespalier0 0.1.0\n";
  EXPECT_EQ(Only(host.Run(CheckVersions), "0.2.0: espalier espalier-agent"), State::kOk);
  host.programs["dpkg-query"] += "installed libespalier-verbs 0.1.0\n";
  EXPECT_EQ(Only(host.Run(CheckVersions), "0.1.0: libespalier-verbs; 0.2.0:"), State::kWarning);
}

TEST(MachineChecks, ReadTheLimitOfPinnedMemory) {
  RecordedHost host;
  EXPECT_EQ(Only(host.Run(CheckMemoryLimit), "no RDMA device"), State::kSkipped);
  host.AddDevice();
  const std::string title = "Limit                     Soft Limit           Hard Limit    Units\n";
  host.Write("/proc/self/limits", title + "Max locked memory         8388608     8388608  bytes\n");
  EXPECT_EQ(Only(host.Run(CheckMemoryLimit), "8388608 bytes"), State::kWarning);
  host.Write("/proc/self/limits",
             title + "Max locked memory         unlimited   unlimited bytes\n");
  EXPECT_EQ(Only(host.Run(CheckMemoryLimit), "any amount"), State::kOk);
  host.Write("/proc/self/limits", "");
  EXPECT_EQ(Only(host.Run(CheckMemoryLimit), "cannot be read"), State::kSkipped);
}

TEST(MachineChecks, AskTheAgent) {
  RecordedHost host;
  EXPECT_EQ(Only(host.Run(CheckAgent), "no agent is configured"), State::kSkipped);
  EXPECT_EQ(Only(host.Run(CheckAgentKeys), "no agent is configured"), State::kSkipped);
  EXPECT_EQ(Only(host.Run(CheckProbeAnswers), "no agent answers"), State::kSkipped);
  host.Write("/etc/espalier/agent.conf", "name: \"h0\"\n");
  EXPECT_EQ(Only(host.Run(CheckAgent), "does not answer"), State::kFailed);
  EXPECT_EQ(Only(host.Run(CheckAgentKeys), "agent.key"), State::kFailed);
  for (const auto& [answer, words, state] :
       {std::tuple(R"({"status": "ok", "state": "synced"})", "hears its controller", State::kOk),
        {R"({"status": "ok", "state": "orphan"})", "its state is orphan", State::kFailed},
        {"[]", "is no agent", State::kFailed},
        {"<html>", "is no agent", State::kFailed}}) {
    host.agent["/healthz"] = answer;
    EXPECT_EQ(Only(host.Run(CheckAgent), words), state) << answer;
  }
}

TEST(MachineChecks, JudgeTheAnswersToProbes) {
  RecordedHost host;
  const auto metrics = [&](const std::string& sent, const std::string& answered) {
    host.agent["/metrics"] =
        "# HELP espalier_agent_probes_sent_total Probes sent\n"
        "# TYPE espalier_agent_probes_sent_total counter\n"
        "espalier_agent_probes_sent_total " +
        sent + "\nespalier_agent_probes_answered_total " + answered +
        "\nespalier_agent_unobserved_queue_pairs 3\n";
    return host.Run(CheckProbeAnswers);
  };
  EXPECT_EQ(Only(metrics("1000", "998"), "100 % of 1000 probes"), State::kOk);
  EXPECT_EQ(Only(metrics("1000", "70"), "7 % of 1000 probes"), State::kWarning);
  EXPECT_EQ(Only(metrics("20", "0"), "only 20 probes"), State::kSkipped);
  EXPECT_EQ(Only(metrics("x", "0"), "does not probe"), State::kSkipped);
  EXPECT_EQ(Only(host.Run(CheckUnobserved), "3 queue pairs belong to no flow"), State::kWarning);
}

}  // namespace
}  // namespace espalier::doctor
