// Measures how long agents take to learn a fabric's paths, in a lab with the real controller and
// agents. One elephant flow between every two hosts under different leaves is announced at once.
//   path_learning_bench [--spines S] [--leaves L] [--hosts-per-leaf H] [--icmp-limits]
//                       [--seconds T]
// Prints over time how many pairs have a port on their assigned path, and the number of probes.
#include <fmt/format.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "agent/local/espalier_agent.h"
#include "common/files/topology_file.h"
#include "common/http/http_client.h"
#include "deploy/demo/lab_daemons.h"

namespace espalier {
namespace {

using namespace std::chrono_literals;

struct Arguments {
  int spines = 8;
  int leaves = 8;
  int hosts_per_leaf = 8;
  bool icmp_limits = false;
  int seconds = 60;
  std::string announce;  // topology file: run as the program that has the flows
};

// Runs inside the lab: announces the flows to every agent and reports progress until the end of
// standard input.
int Announce(const std::string& topology_file) {
  const auto topology = io::ReadTopologyFile(topology_file);
  if (!topology) return 1;
  std::vector<const fabric::Node*> hosts;
  for (const fabric::Node& node : topology->nodes()) {
    if (!node.addresses.empty() && node.kind == fabric::NodeKind::kCompute) hosts.push_back(&node);
  }
  std::vector<espalier_flow*> flows;
  for (const fabric::Node* host : hosts) {
    espalier_agent* agent = nullptr;
    if (espalier_agent_connect(fmt::format("/run/espalier/{}.sock", host->id).c_str(), &agent) <
        0) {
      return 1;
    }
    for (const fabric::Node* peer : hosts) {
      espalier_flow_desc desc{};
      std::copy_n(host->addresses[0].bytes().begin(), 16, desc.source);
      std::copy_n(peer->addresses[0].bytes().begin(), 16, desc.destination);
      desc.protocol = 17;
      desc.max_paths = 1;
      desc.movable = 1;
      desc.destination_port = 4791;
      desc.remaining_bytes = std::uint64_t{1} << 40;
      espalier_flow* flow = nullptr;
      const bool same_leaf =
          (host->addresses[0].bytes()[13] == peer->addresses[0].bytes()[13]);  // 10.leaf.host.1
      if (!same_leaf && espalier_flow_open(agent, &desc, &flow) == 0) flows.push_back(flow);
    }
  }
  fmt::print("{}\n", flows.size());
  std::fflush(stdout);
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  for (std::uint64_t sent = 0; ::poll(&input, 1, 50) == 0; sent += 1 << 20) {
    for (espalier_flow* flow : flows) {
      espalier_flow_progress(flow, (std::uint64_t{1} << 40) - sent, 1 << 20, sent, 0);
    }
  }
  return 0;
}

std::int64_t MetricValue(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? 0 : std::atoll(text.c_str() + at + name.size() + 2);
}

struct Sample {
  double seconds = 0;
  std::int64_t routed = 0;
  std::int64_t probes = 0;
  std::int64_t answers = 0;
  std::int64_t mismatches = 0;
};

Sample Look(const demo::LabDaemons& daemons, std::chrono::steady_clock::time_point start) {
  Sample sample;
  const auto status = daemons.Get("/api/v1/status");
  if (status) sample.routed = std::stoll(status->Find("flows_by_status")->Find("ROUTED")->text);
  sample.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto metrics = io::HttpFetch(daemons.api_address(), "GET", "/metrics", "", 10s);
  if (!metrics) return sample;
  sample.probes = MetricValue(metrics->body, "espalier_controller_probes_ordered_total");
  sample.answers = MetricValue(metrics->body, "espalier_controller_probe_answers_total");
  sample.mismatches = MetricValue(metrics->body, "espalier_controller_path_map_mismatches_total");
  return sample;
}

Result<void> Run(const Arguments& arguments) {
  auto lab = lab::Lab::Start({.name = fmt::format("bench-{}", getpid()),
                              .spines = arguments.spines,
                              .leaves = arguments.leaves,
                              .hosts_per_leaf = arguments.hosts_per_leaf,
                              .icmp_limits = arguments.icmp_limits,
                              .die_with_caller = true});
  if (!lab) return Propagate(lab);
  std::string folder = std::filesystem::temp_directory_path() / "espalier-bench-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return Fail(ErrorCode::kUnavailable, "mkdtemp");
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  auto daemons = demo::LabDaemons::Start(*lab, std::filesystem::path(self).parent_path(), folder);
  if (!daemons) return Propagate(daemons);
  auto command = lab->MakeCommand(lab::kControllerNode, {self, "--announce", lab->topology_file()});
  if (!command) return Propagate(command);

  const int hosts = lab->layout().HostCount();
  const std::int64_t pairs = std::int64_t{hosts} * (hosts - arguments.hosts_per_leaf);
  const auto start = std::chrono::steady_clock::now();
  auto announcer = ChildProcess::Start(*command);
  if (!announcer) return Propagate(announcer);
  fmt::print("{} hosts, {} spines, {} pairs, ICMP limits {}\n", hosts, arguments.spines, pairs,
             arguments.icmp_limits ? "on" : "off");
  fmt::print("{:>9} {:>8} {:>9} {:>9} {:>10}\n", "seconds", "routed", "probes", "answers",
             "mismatches");
  Sample sample;
  double next_line = 0;
  do {
    std::this_thread::sleep_for(5ms);
    sample = Look(*daemons, start);
    if (sample.seconds < next_line && sample.routed < pairs) continue;
    fmt::print("{:9.3f} {:8} {:9} {:9} {:10}\n", sample.seconds, sample.routed, sample.probes,
               sample.answers, sample.mismatches);
    std::fflush(stdout);
    next_line = std::max(sample.seconds * 1.5, 0.05);
  } while (sample.routed < pairs && sample.seconds < arguments.seconds);
  announcer->Kill();
  std::filesystem::remove_all(folder);
  return {};
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  CLI::App app("Measure time and probes to learn the paths of all pairs of a lab's hosts.");
  espalier::Arguments arguments;
  app.add_option("--spines", arguments.spines)->capture_default_str();
  app.add_option("--leaves", arguments.leaves)->capture_default_str();
  app.add_option("--hosts-per-leaf", arguments.hosts_per_leaf)->capture_default_str();
  app.add_flag("--icmp-limits", arguments.icmp_limits, "Keep the kernel's limits on ICMP errors");
  app.add_option("--seconds", arguments.seconds, "Time limit in seconds")->capture_default_str();
  app.add_option("--announce", arguments.announce)->group("");
  CLI11_PARSE(app, argc, argv);
  if (!arguments.announce.empty()) return espalier::Announce(arguments.announce);
  const auto ran = espalier::Run(arguments);
  if (!ran) fmt::print(stderr, "path_learning_bench: {}\n", ran.error().message);
  return ran ? 0 : 1;
}
