// page_load: simulates the agents of a large fabric, whose flows start and end at an even rate, for
// the measurement of the controller's page (page_bench.py).
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "common/base/check.h"
#include "common/files/file.h"
#include "common/files/topology_file.h"
#include "tests/bench/control_loop_fabric.h"
#include "tests/bench/control_loop_load.h"

namespace espalier::bench {
namespace {

int Main(int argc, char** argv) {
  CLI::App app("Simulate the agents of a large fabric, for measuring the controller's page.");
  LoadOptions options{.agents = 2048, .spines = 32, .flows = 8};
  double rate = 200;
  std::string endpoint;
  std::string topology_file;
  app.add_option("--agents", options.agents, "Number of agents, 32 per leaf");
  app.add_option("--spines", options.spines, "Spines");
  app.add_option("--flows", options.flows, "Open flows of each agent");
  app.add_option("--rate", rate, "Flows per second that start, each replacing another");
  app.add_option("--controller", endpoint, "Endpoint of the controller");
  app.add_option("--write-topology", topology_file, "Only write the topology to this file");
  CLI11_PARSE(app, argc, argv);
  if (!topology_file.empty()) {
    const auto topology = MakeBenchTopology(options.agents, options.spines);
    const auto written = io::WriteFileDurably(topology_file, io::FormatTopology(topology.Spec()));
    ESPALIER_CHECK(written, "error={}", written.error().message);
    return 0;
  }
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  Load load(options, endpoint);
  fmt::print("{:.1f} s until all flows had their ports\n", load.Connect());
  std::fflush(stdout);
  for (;;) load.RequestReply(rate, 10);
}

}  // namespace
}  // namespace espalier::bench

int main(int argc, char** argv) { return espalier::bench::Main(argc, argv); }
