#include "deploy/cli/doctor/congestion_checks.h"

#include <algorithm>

#include "tests/deploy/cli/doctor/recorded_host.h"

namespace espalier::doctor {
namespace {

// What `dcb -s -j pfc show dev eth0` prints, with PFC of these priorities and so many pause frames.
std::string Dcb(const std::vector<int>& lossless, int sent, int received) {
  std::string priorities;
  for (int i = 0; i < 8; ++i) {
    const bool is_on = std::find(lossless.begin(), lossless.end(), i) != lossless.end();
    priorities += (i == 0 ? "" : ",") + std::string(is_on ? "true" : "false");
  }
  return R"({"ifname":"eth0","pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[)" +
         priorities + R"(],"requests":[0,0,0,)" + std::to_string(sent) +
         R"(,0,0,0,0],"indications":[0,0,0,)" + std::to_string(received) + ",0,0,0,0]}";
}

void SetEcn(RecordedHost& host, const std::string& point, int priority, const std::string& value) {
  host.Write("/sys/class/net/eth0/ecn/" + point + "/enable/" + std::to_string(priority), value);
}

TEST(CongestionChecks, ReadWhichPrioritiesReactToEcn) {
  RecordedHost host;
  host.AddDevice();
  EXPECT_EQ(Only(host.Run(CheckEcn), "does not show"), State::kSkipped);
  for (int priority = 0; priority < 8; ++priority) {
    SetEcn(host, "roce_np", priority, priority == 3 ? "1\n" : "0\n");
    SetEcn(host, "roce_rp", priority, "0\n");
  }
  EXPECT_EQ(Only(host.Run(CheckEcn), "answer marks: 3; that slow down: none"), State::kWarning);
  SetEcn(host, "roce_rp", 3, "1\n");
  EXPECT_EQ(Only(host.Run(CheckEcn), "answer marks: 3; that slow down: 3"), State::kOk);
}

TEST(CongestionChecks, WantOneLosslessPriority) {
  RecordedHost host;
  host.AddDevice();
  EXPECT_EQ(Only(host.Run(CheckPfc), "dcb is not installed"), State::kSkipped);
  for (const auto& [lossless, words, state] :
       {std::tuple(std::vector<int>{3}, "lossless priorities: 3", State::kOk),
        {{}, "no priority is lossless", State::kWarning},
        {{3, 4}, "lossless priorities: 3 4", State::kWarning}}) {
    host.programs["dcb"] = Dcb(lossless, 0, 0);
    EXPECT_EQ(Only(host.Run(CheckPfc), words), state);
  }
  for (const char* const hostile : {"", "[]", "{}", "{\"prio_pfc\": 3}", "{\"prio_pfc\": []}",
                                    "Attribute read: Operation not supported", "\x80\xff"}) {
    host.programs["dcb"] = hostile;
    EXPECT_EQ(Only(host.Run(CheckPfc), ""), State::kSkipped) << hostile;
  }
}

TEST(CongestionChecks, NameCountersThatGrow) {
  RecordedHost host;
  host.AddDevice();
  host.programs["dcb"] = Dcb({3}, 5, 100);
  auto still = host.Run(CheckCounters);
  ASSERT_EQ(still.size(), 2U);
  EXPECT_EQ(still[0].state, State::kOk);
  EXPECT_EQ(still[1].state, State::kOk);
  EXPECT_NE(still[1].found.find("100 pause frames received and 5 sent"), std::string::npos);

  host.view.wait = [&] {
    host.Write("/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "27\n");
    host.Write("/sys/class/net/eth0/carrier_changes", "4\n");
    host.programs["dcb"] = Dcb({3}, 5, 107);
  };
  const auto grown = host.Run(CheckCounters);
  ASSERT_EQ(grown.size(), 2U);
  EXPECT_EQ(grown[0].state, State::kWarning);
  EXPECT_NE(grown[0].found.find("out_of_sequence +10"), std::string::npos) << grown[0].found;
  EXPECT_NE(grown[0].remedy.find("sprays"), std::string::npos);
  EXPECT_EQ(grown[1].state, State::kWarning);
  EXPECT_NE(grown[1].found.find("carrier_changes +2, pause frames received +7"), std::string::npos)
      << grown[1].found;
}

// A counter that falls was reset, or is another.
TEST(CongestionChecks, IgnoreCountersThatFallOrVanish) {
  RecordedHost host;
  host.AddDevice();
  host.view.wait = [&] {
    host.Write("/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "0\n");
    host.Write("/sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err", "x\n");
    std::filesystem::remove(host.view.root + "/sys/class/net/eth0/carrier_changes");
  };
  for (const Finding& finding : host.Run(CheckCounters)) {
    EXPECT_EQ(finding.state, State::kOk) << finding.found;
  }
}

}  // namespace
}  // namespace espalier::doctor
