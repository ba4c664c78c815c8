#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "deploy/cli/doctor/finding.h"
#include "deploy/cli/doctor/host_view.h"
#include "tests/temporary_folder.h"

namespace espalier::doctor {

// A machine whose files, programs and devices a test records. At first it has no RDMA, no agent and
// a good clock.
class RecordedHost {
 public:
  RecordedHost() {
    view.root = folder_.path();
    view.is_root = true;
    view.agent_address = "127.0.0.1:9181";
    view.run = [this](const std::vector<std::string>& argv) -> Result<std::string> {
      const auto found = programs.find(argv.front());
      if (found != programs.end()) return found->second;
      return espalier::Fail(ErrorCode::kNotFound, argv.front() + " is not installed");
    };
    view.try_devices = [this] { return trials; };
    view.read_clock = [this]() -> Result<ClockState> { return clock; };
    view.ask_agent = [this](const std::string& target) -> Result<std::string> {
      const auto found = agent.find(target);
      if (found != agent.end()) return found->second;
      return espalier::Fail(ErrorCode::kUnavailable, "127.0.0.1:9181 does not answer");
    };
    view.wait = [] {};
  }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = view.root + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  void Link(const std::string& path, const std::string& target) {
    const std::filesystem::path file = view.root + path;
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::create_symlink(target, file);
  }
  // A ConnectX on an interface with one address for RoCEv2 at GID 3, which does all that it should.
  void AddDevice(const std::string& device = "mlx5_0", const std::string& interface = "eth0") {
    const std::string folder = "/sys/class/infiniband/" + device;
    Link(folder + "/device/driver", "../../../../bus/pci/drivers/mlx5_core");
    const std::string port = folder + "/ports/1/";
    Write(port + "link_layer", "Ethernet\n");
    Write(port + "state", "4: ACTIVE\n");
    Write(port + "phys_state", "5: LinkUp\n");
    Write(port + "rate", "400 Gb/sec (4X NDR)\n");
    AddGid(device, "0", "fe80:0000:0000:0000:0a00:00ff:fe00:0001", "IB/RoCE v1", interface);
    AddGid(device, "1", "fe80:0000:0000:0000:0a00:00ff:fe00:0001", "RoCE v2", interface);
    AddGid(device, "2", "0000:0000:0000:0000:0000:ffff:0a00:0001", "IB/RoCE v1", interface);
    AddGid(device, "3", "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", interface);
    Write(port + "gids/4", "0000:0000:0000:0000:0000:0000:0000:0000\n");
    Write(port + "hw_counters/out_of_sequence", "17\n");
    Write(port + "hw_counters/packet_seq_err", "2\n");
    Write("/sys/class/net/" + interface + "/mtu", "9000\n");
    Write("/sys/class/net/" + interface + "/carrier_changes", "2\n");
    trials.push_back({.device = device,
                      .port = 1,
                      .control = verbs::PathControl{.at_connect = true,
                                                    .live = verbs::PortChangeMethod::kSetUdpPort,
                                                    .why_not = ""},
                      .error = ""});
  }
  void AddGid(const std::string& device, const std::string& index, const std::string& address,
              const std::string& type, const std::string& interface) {
    const std::string port = "/sys/class/infiniband/" + device + "/ports/1/";
    Write(port + "gids/" + index, address + "\n");
    Write(port + "gid_attrs/types/" + index, type + "\n");
    Write(port + "gid_attrs/ndevs/" + index, interface + "\n");
  }

  // The findings of one check.
  std::vector<Finding> Run(void (*check)(const HostView&, Findings&)) const {
    Findings findings;
    findings.Begin("host", "check");
    check(view, findings);
    return findings.all();
  }

  HostView view;
  std::map<std::string, std::string> programs;  // what each prints
  std::map<std::string, std::string> agent;     // its answers
  std::vector<DeviceTrial> trials;
  ClockState clock{.is_synchronised = true, .max_error_seconds = 0.002};

 private:
  TemporaryFolder folder_;
};

// The state of the only finding, whose text must contain `words`, and which must have a remedy if
// something is amiss.
inline State Only(const std::vector<Finding>& findings, const std::string& words) {
  EXPECT_EQ(findings.size(), 1U);
  if (findings.empty()) return State::kSkipped;
  const Finding& finding = findings.front();
  EXPECT_NE(finding.found.find(words), std::string::npos) << finding.found;
  const bool is_amiss = finding.state == State::kWarning || finding.state == State::kFailed;
  EXPECT_EQ(is_amiss, is_amiss && !finding.remedy.empty());
  return finding.state;
}

}  // namespace espalier::doctor
