// espalier-traffic: sends and receives one host's part of a lab's traffic. The coordinator
// (deploy/lab/run_traffic.h) starts one process per host. It writes "ready", waits for "g" (go) on
// its input, writes "done" when its flows are done, continues to receive until "s" (stop) or the
// end of its input, and writes its report.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "common/files/file.h"
#include "common/files/topology_file.h"
#include "deploy/lab/traffic/traffic_host.h"

namespace {

using namespace espalier;

struct Arguments {
  traffic::TrafficHostOptions host;
  std::string workload_file;
  std::string topology_file;
};

void Say(const char* word) {
  fmt::print("{}\n", word);
  std::fflush(stdout);
}

Result<void> Run(const Arguments& arguments) {
  const Result<std::string> text = io::ReadFile(arguments.workload_file);
  if (!text) return tl::unexpected(text.error());
  const Result<traffic::Workload> workload = traffic::ParseWorkload(*text, arguments.workload_file);
  if (!workload) return tl::unexpected(workload.error());
  const Result<fabric::Topology> topology = io::ReadTopologyFile(arguments.topology_file);
  if (!topology) return tl::unexpected(topology.error());
  io::AsioEventLoop loop;
  Result<std::unique_ptr<traffic::TrafficHost>> host =
      traffic::TrafficHost::Make(loop, arguments.host, *workload, *topology);
  if (!host) return Propagate(host);
  const TimerPtr input = loop.WatchReadable(STDIN_FILENO, [&] {
    char command = 's';
    if (::read(STDIN_FILENO, &command, 1) != 1) command = 's';
    if (command == 'g') (*host)->Start([] { Say("done"); });
    if (command == 's') loop.Stop();
  });
  Say("ready");
  loop.Run();
  Say(traffic::FormatHostReport((*host)->Report()).c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Send and receive one host's part of a lab's traffic (started by the lab's coordinator).");
  Arguments arguments;
  app.add_option("--host", arguments.host.host, "Name of this host")->required();
  app.add_option("--workload", arguments.workload_file, "Workload file")->required();
  app.add_option("--topology", arguments.topology_file, "Topology file")->required();
  app.add_option("--seed", arguments.host.seed, "Seed of the flows' own source ports");
  app.add_flag("--agent", arguments.host.use_agent, "Announce the flows to this host's agent");
  app.add_flag("!--agent-optional", arguments.host.needs_agent,
               "With --agent: send over plain ECMP if no agent answers");
  app.add_option(
      "--barrier", arguments.host.barrier,
      "Prefix of the sockets at which hosts of phased jobs wait for each other (default: "
      "the workload file)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (arguments.host.barrier.empty()) arguments.host.barrier = arguments.workload_file;
  const Result<void> result = Run(arguments);
  if (result) return 0;
  fmt::print(stderr, "espalier-traffic: {}: {}\n", arguments.host.host, result.error().message);
  return 1;
}
