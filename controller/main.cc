// espalier-controller: wires the controller to its loop, its bus, its store and its API.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <functional>
#include <vector>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/io/asio_event_loop.h"
#include "common/io/background.h"
#include "common/io/http.h"
#include "common/io/topology_file.h"
#include "common/io/zmq_bus.h"
#include "controller/api/operator_api.h"
#include "controller/configuration.h"
#include "controller/controller.h"
#include "controller/store/sqlite_store.h"

namespace espalier::controller {
namespace {

int Complain(const Error& error) {
  fmt::print(stderr, "espalier-controller: {}\n", error.message);
  return error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kNotFound ? 2 : 1;
}

int Run(const Configuration& config, fabric::Topology topology) {
  io::AsioEventLoop loop;
  Metrics metrics;
  auto bus = io::ZmqRouterBus::Bind(loop, {.endpoint = config.listen});
  if (!bus) return Complain(bus.error());
  const auto store = OpenSqliteStore(config.state_file, loop, config.options.wall_clock);
  if (!store) return Complain(store.error());
  io::Background background(loop);
  ControllerOptions options = config.options;
  options.background = [&background](std::function<void()> work, std::function<void()> done) {
    background.Run(std::move(work), std::move(done));
  };
  Controller controller(std::move(topology), options, loop, **bus, **store, metrics);
  const Result<void> started = controller.Start();
  if (!started) return Complain(started.error());

  OperatorApi api(controller, metrics);
  std::vector<std::unique_ptr<io::HttpServer>> servers;
  for (const std::string& address : config.http) {
    auto server = io::HttpServer::Listen(
        loop, address, [&](const io::HttpRequest& request, io::HttpServer::Respond respond) {
          api.Handle(request, std::move(respond));
        });
    if (!server) return Complain(server.error());
    servers.push_back(std::move(*server));
  }
  const std::vector<int> signals = {SIGINT, SIGTERM};
  const TimerPtr watch = loop.WatchSignals(signals, [&](int) { loop.Stop(); });
  Log(LogLevel::kInfo, "event=ready agents={} http={}", (*bus)->endpoint(),
      servers.empty() ? "none" : servers.front()->address());
  loop.Run();
  Log(LogLevel::kInfo, "event=stopped");
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("The Espalier controller: assigns paths to the elephant flows of a cluster.");
  std::string config_file;
  bool check = false;
  app.add_option("--config", config_file, "Configuration file (protobuf text format)")->required();
  app.add_flag("--check", check, "Check configuration and topology, then exit");
  app.set_version_flag("--version", ESPALIER_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Result<Configuration> config = ReadConfiguration(config_file);
  if (!config) return Complain(config.error());
  Result<fabric::Topology> topology = io::ReadTopologyFile(config->topology_file);
  if (!topology) return Complain(topology.error());
  if (check) {
    fmt::print("{}: ok, {} nodes, {} links\n", config_file, topology->nodes().size(),
               topology->links().size());
    return 0;
  }
  SetLogLevel(config->log_level);
  return Run(*config, std::move(*topology));
}

}  // namespace
}  // namespace espalier::controller

int main(int argc, char** argv) { return espalier::controller::Main(argc, argv); }
