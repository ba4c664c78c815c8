#include "deploy/cli/doctor/device_checks.h"

#include "tests/deploy/cli/doctor/recorded_host.h"

namespace espalier::doctor {
namespace {

constexpr const char* kPort = "/sys/class/infiniband/mlx5_0/ports/1/";

TEST(DeviceChecks, FindNothingAmissOnAGoodDevice) {
  RecordedHost host;
  host.AddDevice();
  EXPECT_EQ(Only(host.Run(CheckDevices), "driver mlx5_core: flow label, live at once"), State::kOk);
  EXPECT_EQ(Only(host.Run(CheckPorts), "4: ACTIVE, 5: LinkUp, 400 Gb/sec"), State::kOk);
  EXPECT_EQ(Only(host.Run(CheckGids), "GID 3: 10.0.0.1 of eth0, RoCEv2"), State::kOk);
  EXPECT_EQ(Only(host.Run(CheckMtu), "9000 bytes: RDMA packets of 4096"), State::kOk);
  EXPECT_EQ(Only(host.Run(CheckUplinks), "eth0: no bond"), State::kOk);
}

TEST(DeviceChecks, AreSkippedWithoutRdmaUnlessThereIsAnAgent) {
  RecordedHost host;
  EXPECT_EQ(Only(host.Run(CheckDevices), "no RDMA device"), State::kSkipped);
  for (auto* const check : {CheckPorts, CheckGids}) {
    EXPECT_EQ(Only(host.Run(check), "no RDMA device"), State::kSkipped);
  }
  for (auto* const check : {CheckMtu, CheckUplinks}) {
    EXPECT_EQ(Only(host.Run(check), "no interface with RoCEv2"), State::kSkipped);
  }
  host.Write("/etc/espalier/agent.conf", "");
  EXPECT_EQ(Only(host.Run(CheckDevices), "only flows are steered"), State::kWarning);
}

TEST(DeviceChecks, NameADeviceWhosePortsCannotBeChosen) {
  RecordedHost host;
  host.AddDevice();
  host.trials = {{.device = "mlx5_0",
                  .port = 1,
                  .control = verbs::PathControl{.why_not = "it is iWARP, which runs over TCP"},
                  .error = ""}};
  EXPECT_EQ(Only(host.Run(CheckDevices), "iWARP"), State::kFailed);
  host.trials[0].control = verbs::PathControl{.at_connect = true, .why_not = ""};
  EXPECT_EQ(Only(host.Run(CheckDevices), "live by other queue pairs"), State::kWarning);
  host.trials[0] = {.device = "mlx5_0", .control = {}, .error = "cannot open mlx5_0"};
  EXPECT_EQ(Only(host.Run(CheckDevices), "cannot try it: cannot open mlx5_0"), State::kSkipped);
}

TEST(DeviceChecks, JudgeTheGidThatNcclIsTold) {
  RecordedHost host;
  host.AddDevice();
  for (const auto& [index, words, state] :
       {std::tuple("3", "NCCL_IB_GID_INDEX=3: 10.0.0.1", State::kOk),
        {"-1", "GID 3", State::kOk},
        {"2", "NCCL_IB_GID_INDEX=2 is 10.0.0.1, IB/RoCE v1", State::kFailed},
        {"1", "RoCE v2, link-local", State::kFailed},
        {"9", "NCCL_IB_GID_INDEX=9 is empty", State::kFailed},
        {"3\x1b[2J", "is empty", State::kFailed}}) {
    host.view.environment["NCCL_IB_GID_INDEX"] = index;
    EXPECT_EQ(Only(host.Run(CheckGids), words), state) << index;
  }
}

TEST(DeviceChecks, NameAPortThatIsDownAndOneWithoutAddress) {
  RecordedHost host;
  host.AddDevice();
  host.Write(std::string(kPort) + "state", "1: DOWN\n");
  EXPECT_EQ(Only(host.Run(CheckPorts), "1: DOWN"), State::kFailed);
  std::filesystem::remove(host.view.root + kPort + "gids/3");
  EXPECT_EQ(Only(host.Run(CheckGids), "no address for RoCEv2"), State::kFailed);
  host.Write(std::string(kPort) + "link_layer", "InfiniBand\n");
  EXPECT_EQ(Only(host.Run(CheckGids), "its link layer is InfiniBand"), State::kSkipped);
}

TEST(DeviceChecks, ComputeThePathMtu) {
  RecordedHost host;
  host.AddDevice();
  for (const auto& [mtu, words, state] :
       {std::tuple("4200", "RDMA packets of 4096", State::kOk),
        {"4192", "4096", State::kOk},
        {"4191", "RDMA packets of 2048", State::kWarning},
        {"1500", "RDMA packets of 1024", State::kWarning},
        {"0", "RDMA packets of 256", State::kWarning},
        {"-1", "cannot be read", State::kSkipped},
        {"99999999999999999999999", "cannot be read", State::kSkipped}}) {
    host.Write("/sys/class/net/eth0/mtu", mtu);
    EXPECT_EQ(Only(host.Run(CheckMtu), words), state) << mtu;
  }
}

TEST(DeviceChecks, SayWhoChoosesTheUplinkOfABond) {
  RecordedHost host;
  host.AddDevice("mlx5_bond_0", "bond0");
  const std::string bond = "/sys/class/net/bond0/bonding/";
  host.Write(bond + "mode", "802.3ad 4\n");
  host.Write(bond + "slaves", "eth0 eth1\n");
  host.Write(bond + "xmit_hash_policy", "layer2 0\n");
  EXPECT_EQ(Only(host.Run(CheckUplinks), "bond 802.3ad of eth0 eth1, layer2"), State::kWarning);
  host.Write(bond + "xmit_hash_policy", "layer3+4 1\n");
  EXPECT_EQ(Only(host.Run(CheckUplinks), "the source port chooses"), State::kOk);
  host.Write(bond + "mode", "balance-rr 0\n");
  EXPECT_EQ(Only(host.Run(CheckUplinks), "balance-rr"), State::kWarning);
  host.Write(bond + "mode", "active-backup 1\n");
  EXPECT_EQ(Only(host.Run(CheckUplinks), "one uplink at a time"), State::kOk);
}

TEST(DeviceChecks, SayThatQueueAffinityIgnoresThePort) {
  RecordedHost host;
  host.AddDevice();
  std::filesystem::remove_all(host.view.root + "/sys/class/infiniband/mlx5_0/device");
  host.Link("/sys/class/infiniband/mlx5_0/device", "../../../0000:1c:00.0");
  host.Write("/sys/kernel/debug/mlx5/0000:1c:00.0/lag/port_sel_mode", "queue_affinity\n");
  EXPECT_EQ(Only(host.Run(CheckUplinks), "LAG in mode queue_affinity"), State::kWarning);
  host.Write("/sys/kernel/debug/mlx5/0000:1c:00.0/lag/port_sel_mode", "hash\n");
  EXPECT_EQ(Only(host.Run(CheckUplinks), "LAG in hash mode"), State::kOk);
}

TEST(DeviceChecks, EndureHostileFiles) {
  RecordedHost host;
  host.AddDevice();
  host.Write(std::string(kPort) + "gids/3", std::string(1 << 20, 'f'));
  host.Write(std::string(kPort) + "gids/5", "::1\n::2");
  host.Write(std::string(kPort) + "gid_attrs/types/5", std::string("RoCE v2\0x", 9));
  for (int i = 0; i < 2'000; ++i) {
    host.AddGid("mlx5_0", "x" + std::to_string(i), "not an address", "RoCE v2", "\x1b[31m");
  }
  EXPECT_EQ(Only(host.Run(CheckGids), "no address for RoCEv2"), State::kFailed);
  host.Write(std::string(kPort) + "state", std::string(1 << 20, 'A'));
  EXPECT_EQ(Only(host.Run(CheckPorts), "unknown"), State::kFailed);
}

}  // namespace
}  // namespace espalier::doctor
