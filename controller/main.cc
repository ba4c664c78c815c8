// espalier-controller: wires the controller to its loop, its bus, its store and its API.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/capability.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/bus/zmq_bus.h"
#include "common/daemon/daemon.h"
#include "common/daemon/privileges.h"
#include "common/daemon/service_notifier.h"
#include "common/files/topology_file.h"
#include "common/http/http.h"
#include "common/http/http_thread.h"
#include "common/loop/asio_event_loop.h"
#include "common/loop/background.h"
#include "controller/api/http/http_guard.h"
#include "controller/api/operator_api.h"
#include "controller/controller.h"
#include "controller/daemon/configuration.h"
#include "controller/daemon/reloader.h"
#include "controller/store/sqlite_store.h"

namespace espalier::controller {
namespace {

constexpr Duration kRecheckKeysInterval = std::chrono::seconds(10);

io::ZmqRouterOptions BusOptions(const Configuration& config, const Keys& keys) {
  io::ZmqRouterOptions options{.endpoint = config.listen, .limits = config.limits};
  // The bus closes no agent's connection before the agent itself counts as gone.
  options.silence_limit = std::max(
      io::kSilenceLimit, config.options.heartbeat_interval * config.options.missed_heartbeats);
  if (config.insecure_plaintext) {
    Log(LogLevel::kWarning, "event=insecure_plaintext listen={}", config.listen);
    return options;
  }
  options.curve = io::CurveServer{keys.secret_key, [&keys](std::string_view key) {
                                    return keys.agents.NameOf(key, keys.Now());
                                  }};
  return options;
}

int Run(const io::Daemon& daemon, const Configuration& config, Keys keys,
        fabric::Topology topology) {
  const std::vector<int> needed = {CAP_NET_BIND_SERVICE};
  if (const Result<void> gave_up = io::KeepOnlyCapabilities(needed); !gave_up) {
    return daemon.ReportError(gave_up.error());
  }
  io::AsioEventLoop loop;
  Metrics metrics;
  const auto bus = io::ZmqRouterBus::Bind(loop, BusOptions(config, keys));
  if (!bus) return daemon.ReportError(bus.error());
  HttpGuard* guard = nullptr;  // set before the server starts
  io::HttpThread http(loop,
                      [&guard](const io::HttpRequest& request, io::HttpServer::Respond respond) {
                        guard->Handle(request, std::move(respond));
                      });
  std::vector<std::string> addresses;
  for (const std::string& address : config.http) {
    auto listen_ports = http.Listen(address, config.http_options);
    if (!listen_ports) return daemon.ReportError(listen_ports.error());
    addresses.push_back(std::move(*listen_ports));
  }
  const StoreLimits limits{.audit_age = std::chrono::hours(24) * config.audit_days,
                           .audit_moves = config.audit_moves};
  const auto store = OpenSqliteStore(config.state_file, loop, config.options.wall_clock, limits);
  if (!store) return daemon.ReportError(store.error());
  io::Background background(loop);
  ControllerOptions options = config.options;
  options.background = [&background](std::function<void()> work, std::function<void()> done) {
    background.Run(std::move(work), std::move(done));
  };
  Controller controller(std::move(topology), options, loop, **bus, **store, metrics);
  (*bus)->OnRefusal([&](const io::PeerRefusal& refusal) {
    controller.HandleRefusal(refusal.who, io::PeerRefusalText(refusal.cause));
  });
  const Result<void> started = controller.Start();
  if (!started) return daemon.ReportError(started.error());

  Reloader reloader(daemon.config_file(), config, keys, **bus, http, controller);
  OperatorApi api(controller, metrics, [&] { return reloader.Answer(); });
  HttpGuard the_guard(
      keys.tokens, config.options.wall_clock,
      [&](const auto& peer, const auto& reason) { controller.HandleRefusal(peer, reason); },
      [&](const io::HttpRequest& request, io::HttpServer::Respond respond) {
        api.Handle(request, std::move(respond));
      });
  if (!config.http_options.tls_certificate_file.empty()) the_guard.UseSecureCookies();
  guard = &the_guard;
  http.Start();
  const std::vector<int> signals = {SIGINT, SIGTERM, SIGHUP};
  const TimerPtr watch = loop.WatchSignals(signals, [&](int signal) {
    if (signal != SIGHUP) return loop.Stop();
    (void)reloader.Reload();  // an event records the result
  });
  TimerPtr recheck;  // finds keys that have expired
  const std::function<void()> recheck_keys = [&] {
    (*bus)->RecheckKeys();
    recheck = loop.After(kRecheckKeysInterval, recheck_keys);
  };
  recheck_keys();
  Log(LogLevel::kInfo, "event=ready agents={} http={}", (*bus)->endpoint(),
      addresses.empty() ? "none" : fmt::format("{}", fmt::join(addresses, ",")));
  const io::ServiceNotifier notifier(loop);
  loop.Run();
  Log(LogLevel::kInfo, "event=stopped");
  return 0;
}

int Main(int argc, char** argv) {
  io::Daemon daemon("espalier-controller",
                    "The Espalier controller: assigns paths to the elephant flows of a cluster.",
                    "Check configuration and topology, then exit");
  if (const std::optional<int> exit = daemon.Parse(argc, argv)) return *exit;
  const Result<Configuration> config = ReadConfiguration(daemon.config_file());
  if (!config) return daemon.ReportError(config.error());
  Result<fabric::Topology> topology = io::ReadTopologyFile(config->topology_file);
  if (!topology) return daemon.ReportError(topology.error());
  Result<Keys> keys = ReadKeys(*config);
  if (!keys) return daemon.ReportError(keys.error());
  if (daemon.is_check()) {
    // Not an error, as a service manager creates its folder at the start.
    const Result<void> has_folder = CheckStoreFolder(config->state_file);
    if (!has_folder) fmt::print(stderr, "warning: {}\n", has_folder.error().message);
    fmt::print("{}: ok, {} nodes, {} links\n", daemon.config_file(), topology->nodes().size(),
               topology->links().size());
    return 0;
  }
  SetLogLevel(config->log_level);
  return Run(daemon, *config, std::move(*keys), std::move(*topology));
}

}  // namespace
}  // namespace espalier::controller

int main(int argc, char** argv) { return espalier::controller::Main(argc, argv); }
