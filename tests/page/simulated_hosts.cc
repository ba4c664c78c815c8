// simulated_hosts: real agents of simulated hosts on a simulated leaf-spine fabric, in real time,
// for a real controller: what the tests of the page and its measurements look at.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/probe/sockets/no_train_socket.h"
#include "agent/sim/sim_host.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/random.h"
#include "common/bus/zmq_dealer_bus.h"
#include "common/fabric/builders.h"
#include "common/files/file.h"
#include "common/files/topology_file.h"
#include "common/loop/asio_event_loop.h"
#include "common/sim/sim_fabric.h"

namespace espalier::page {
namespace {

struct Options {
  fabric::LeafSpineOptions shape;
  std::string controller;
  int jobs = 2;
  int flows = 1;  // of each host, to as many others of its job
  double round_seconds = 3;
  double pause_seconds = 0.5;
  double look_seconds = 0.01;
  std::string first_job = "llama-70b";
  std::string first_spine = "spine0";
};

fabric::TopologySpec MakeSpec(const Options& options) {
  auto spec = fabric::BuildLeafSpine(options.shape).value();
  std::uint64_t seed = 1;
  for (fabric::Node& node : spec.nodes) {
    if (node.kind == fabric::NodeKind::kSwitch) node.ecmp = {"crc32", seed++};
    if (node.id == "spine0") node.id = options.first_spine;
  }
  spec.name = fmt::format("{}-leaves-{}-spines", options.shape.leaves, options.shape.spines);
  return spec;
}

// One host with its agent.
struct Host {
  std::unique_ptr<sim::SimHost> hardware;
  std::unique_ptr<Bus> bus;
  agent::NoTrainSocket trains;
  Metrics metrics;
  std::unique_ptr<agent::Agent> agent;
};

// A job: rings through every so many-th host. A round ends when all its flows have.
struct Job {
  std::string name;
  std::vector<std::size_t> hosts;
  int open = 0;
  TimerPtr pause;
};

class World {
 public:
  World(const Options& options, io::AsioEventLoop& loop)
      : options_(options),
        loop_(loop),
        fabric_(sim::SimFabric::Build(loop, fabric::Topology::Build(MakeSpec(options)).value())
                    .value()) {
    const int count = options.shape.leaves * options.shape.hosts_per_leaf;
    for (int i = 0; i < count; ++i) AddHost(i);
    for (int i = 0; i < options.jobs; ++i) {
      Job& job = jobs_.emplace_back();
      job.name = i == 0 ? options.first_job : fmt::format("job-{}", i);
      for (int host = i; host < count; host += options.jobs) {
        job.hosts.push_back(static_cast<std::size_t>(host));
      }
    }
    for (Job& job : jobs_) Pause(job, 1);
  }

 private:
  void AddHost(int number) {
    const std::string name = fmt::format("h{}", number);
    Host& host = *hosts_.emplace_back(std::make_unique<Host>());
    host.hardware =
        std::make_unique<sim::SimHost>(*fabric_, loop_, *fabric_->topology().FindNode(name));
    host.bus =
        io::ZmqDealerBus::Connect(loop_, {.endpoint = options_.controller, .curve = {}}).value();
    agent::AgentOptions options;
    options.name = name;
    options.instance = static_cast<std::uint64_t>(number) + 1;
    options.features = {"collective", "probe"};
    options.nics = {{.address = host.hardware->address(), .device = "nic0", .link_up = true}};
    options.reporter.progress_interval =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options_.look_seconds));
    host.agent =
        std::make_unique<agent::Agent>(options, loop_, *host.bus, *host.hardware, *host.hardware,
                                       *host.hardware, host.trains, host.metrics);
    host.agent->Start();
  }

  void Pause(Job& job, double seconds) {
    const auto wait = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    job.pause = loop_.After(wait, [this, &job] { StartRound(job); });
  }

  void StartRound(Job& job) {
    const double bits = options_.round_seconds *
                        static_cast<double>(options_.shape.host_rate.value) / options_.flows;
    const std::size_t size = job.hosts.size();
    for (std::size_t i = 0; i < size; ++i) {
      for (int n = 1; n <= options_.flows; ++n) {
        // Farther than one leaf, and another host for each.
        const std::size_t step =
            (static_cast<std::size_t>(n) * size / 8 + static_cast<std::size_t>(n)) % size;
        const std::size_t to = job.hosts[(i + std::max<std::size_t>(step, 1)) % size];
        ++job.open;
        hosts_[job.hosts[i]]->hardware->Open(
            {.destination = hosts_[to]->hardware->address(),
             .bytes = static_cast<std::uint64_t>(bits / 8 * (0.9 + 0.1 * random_.Fraction())),
             .job = job.name,
             .source_port = static_cast<std::uint16_t>(0xC000 + random_.Below(0x4000)),
             .done = [this, &job] {
               if (--job.open == 0) Pause(job, options_.pause_seconds);
             }});
      }
    }
  }

  const Options options_;
  io::AsioEventLoop& loop_;
  Random random_{1};
  std::unique_ptr<sim::SimFabric> fabric_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::deque<Job> jobs_;
};

int Main(int argc, char** argv) {
  CLI::App app("Simulated hosts with real agents, for the tests of the page.");
  Options options;
  std::string write_topology;
  app.add_option("--spines", options.shape.spines);
  app.add_option("--leaves", options.shape.leaves);
  app.add_option("--hosts-per-leaf", options.shape.hosts_per_leaf);
  app.add_option("--controller", options.controller, "Where agents connect to");
  app.add_option("--jobs", options.jobs);
  app.add_option("--flows", options.flows, "Of each host");
  app.add_option("--round-seconds", options.round_seconds, "Without contention");
  app.add_option("--pause-seconds", options.pause_seconds);
  app.add_option("--look-seconds", options.look_seconds, "How often agents look at their flows");
  app.add_option("--first-job", options.first_job, "The name of the first job");
  app.add_option("--first-spine", options.first_spine, "The name of the first spine");
  app.add_option("--write-topology", write_topology, "Only writes the topology to this file");
  CLI11_PARSE(app, argc, argv);
  SetLogLevel(LogLevel::kWarning);
  if (!write_topology.empty()) {
    const auto written =
        io::WriteFileDurably(write_topology, io::FormatTopology(MakeSpec(options)));
    ESPALIER_CHECK(written, "error={}", written.error().message);
    return 0;
  }
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  io::AsioEventLoop loop;
  const World world(options, loop);
  const std::vector<int> signals = {SIGINT, SIGTERM};
  const TimerPtr watch = loop.WatchSignals(signals, [&](int) { loop.Stop(); });
  loop.Run();
  return 0;
}

}  // namespace
}  // namespace espalier::page

int main(int argc, char** argv) { return espalier::page::Main(argc, argv); }
