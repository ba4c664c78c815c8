#include "deploy/cli/lab/steered_lab.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "deploy/demo/lab_daemons.h"

namespace espalier::lab {
namespace {

constexpr int kSflowPort = 6343;
constexpr int kMostSwitches = 256;  // as many management networks are numbered
constexpr int kFirstGroup = 5;      // of NFLOG: one for each switch, as a listener reads one

Result<void> Write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return Fail(ErrorCode::kUnavailable, fmt::format("cannot write {}", path));
  return {};
}

// Leaves the program running, with its output in a log.
Result<void> Launch(const Lab& lab, const std::string& node, const std::string& command,
                    const std::string& log) {
  const Result<std::string> started =
      lab.Run(node, {"setsid", "--fork", "sh", "-c",
                     fmt::format("exec {} </dev/null >>\"{}\" 2>&1", command, log)});
  if (!started) return tl::unexpected(started.error());
  return {};
}

// The numbers of a node's interfaces, by name.
Result<std::map<std::string, int>> Interfaces(const Lab& lab, const std::string& node) {
  const Result<std::string> text = lab.Run(node, {"ip", "-o", "link", "show"});
  if (!text) return tl::unexpected(text.error());
  std::map<std::string, int> numbers;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);  // "3: s0@if2: <BROADCAST,..."
    int number = 0;
    char colon = 0;
    std::string name;
    if (words >> number >> colon >> name)
      numbers[name.substr(0, name.find_first_of("@:"))] = number;
  }
  return numbers;
}

// The lines of the configuration that say who the switch is and which interface is which link.
Result<std::string> DescribePorts(const Lab& lab, const std::string& name,
                                  const std::string& address) {
  const Result<std::map<std::string, int>> numbers = Interfaces(lab, name);
  if (!numbers) return tl::unexpected(numbers.error());
  std::string lines = fmt::format("exporter: \"{} {}\"\n", name, address);
  const fabric::NodeId node = *lab.topology().FindNode(name);
  for (const fabric::Link& link : lab.topology().links()) {
    if (link.a != node && link.b != node) continue;
    const auto number = numbers->find(link.a == node ? link.a_port : link.b_port);
    if (number != numbers->end())
      lines += fmt::format("port: \"{} {} {}\"\n", name, number->second, link.id);
  }
  return lines;
}

// Gives a switch its management link, and starts its sampling agent.
Result<void> SampleSwitch(const Lab& lab, const std::string& name, int number, int rate,
                          const std::string& folder) {
  const std::string near = fmt::format("10.254.{}.1", number);
  const std::string far = fmt::format("10.254.{}.2", number);
  const std::string links = fmt::format(
      "ip link add mgs{0} type veth peer name mg{0} netns {1} && ip addr add {2}/30 dev mgs{0} && "
      "ip link set mgs{0} up && ip -n {1} addr add {3}/30 dev mg{0} && ip -n {1} link set mg{0} up",
      number, name, near, far);
  Result<std::string> done = lab.Run(kControllerNode, {"sh", "-c", links});
  if (!done) return tl::unexpected(done.error());
  done =
      lab.Run(name, {"nft", "-f", "-"},
              fmt::format("table inet sflow {{\n chain sample {{\n"
                          "  type filter hook forward priority 0;\n"
                          "  numgen random mod {} == 0 log group {} snaplen 128 queue-threshold 1\n"
                          " }}\n}}\n",
                          rate, kFirstGroup + number));
  if (!done) return tl::unexpected(done.error());
  const std::string config = fmt::format("{}/{}.uacctd", folder, name);
  Result<void> written =
      Write(config, fmt::format("daemonize: false\nuacctd_group: {}\nuacctd_ext_sampling_rate: {}\n"
                                "uacctd_nl_size: 2097152\nsnaplen: 256\nplugins: sfprobe[s]\n"
                                "sfprobe_receiver[s]: {}:{}\nsfprobe_agentip[s]: {}\n",
                                kFirstGroup + number, rate, near, kSflowPort, far));
  if (!written) return written;
  return Launch(lab, name, fmt::format("uacctd -f \"{}\"", config),
                fmt::format("{}/{}-uacctd.log", folder, name));
}

Result<void> SampleSwitches(const Lab& lab, int rate, const std::string& programs,
                            const std::string& folder, const std::string& api_address) {
  if (!lab.Run(kControllerNode, {"sh", "-c", "command -v uacctd"})) {
    return Fail(ErrorCode::kNotFound,
                "the program uacctd is not installed (apt-get install pmacct)");
  }
  std::string config = fmt::format(
      "controller: \"{}\"\nhttp: \"unix:{}/telemetry.sock\"\nlisten: \"0.0.0.0:{}\"\n"
      "topology_file: \"{}\"\n",
      api_address, folder, kSflowPort, lab.topology_file());
  int number = 0;
  for (const fabric::Node& node : lab.topology().nodes()) {
    if (node.kind != fabric::NodeKind::kSwitch) continue;
    if (number == kMostSwitches) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("only {} switches can be sampled", kMostSwitches));
    }
    if (Result<void> sampled = SampleSwitch(lab, node.id, number, rate, folder); !sampled) {
      return sampled;
    }
    const Result<std::string> ports =
        DescribePorts(lab, node.id, fmt::format("10.254.{}.2", number));
    if (!ports) return tl::unexpected(ports.error());
    config += *ports;
    ++number;
  }
  for (int host = 0; host < lab.layout().HostCount(); ++host) {
    for (int rail = 0; rail < lab.layout().options().rails; ++rail) {
      const Result<std::string> done =
          lab.Run(fmt::format("h{}", host), {"ip", "link", "set", "dev", fmt::format("eth{}", rail),
                                             "gso_max_segs", "1", "gro_max_size", "1500"});
      if (!done) return tl::unexpected(done.error());
    }
  }
  if (Result<void> written = Write(folder + "/telemetry.conf", config); !written) return written;
  return Launch(
      lab, kControllerNode,
      fmt::format("\"{}/espalier-telemetry\" --config \"{}/telemetry.conf\"", programs, folder),
      folder + "/telemetry.log");
}

}  // namespace

Result<std::string> SteerLab(const Lab& lab, int sampling) {
  const std::filesystem::path programs =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path folder =
      std::filesystem::path(lab.topology_file()).parent_path() / "espalier";
  std::filesystem::create_directory(folder);
  Result<std::string> address = demo::LabDaemons::StartAndLeave(lab, programs, folder);
  if (address && sampling > 0) {
    const Result<void> sampled = SampleSwitches(lab, sampling, programs, folder, *address);
    if (!sampled) address = tl::unexpected(sampled.error());
  }
  if (!address) static_cast<void>(Lab::Stop(lab.record().options.name));
  return address;
}

}  // namespace espalier::lab
