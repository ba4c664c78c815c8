// espalier-controller: wires the controller to its loop, its bus, its store and its API.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/capability.h>

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
#include "common/bus/zmq_router_bus.h"
#include "common/daemon/daemon.h"
#include "common/daemon/privileges.h"
#include "common/daemon/service_notifier.h"
#include "common/http/http.h"
#include "common/http/http_server.h"
#include "common/http/http_thread.h"
#include "common/loop/asio_event_loop.h"
#include "common/loop/background.h"
#include "controller/api/http/http_guard.h"
#include "controller/api/operator_api.h"
#include "controller/controller.h"
#include "controller/daemon/applied_topology.h"
#include "controller/daemon/bus_options.h"
#include "controller/daemon/configuration.h"
#include "controller/daemon/listen_addresses.h"
#include "controller/daemon/reloader.h"
#include "controller/store/sqlite_store.h"

namespace espalier::controller {
namespace {

constexpr Duration kRecheckKeysInterval = std::chrono::seconds(10);
constexpr Duration kAnswerTime = std::chrono::milliseconds(200);

// Runs until a signal ends it, or until an operator has applied a topology: `applied` tells.
int Run(const io::Daemon& daemon, const Configuration& config, Keys keys,
        AppliedTopology::Loaded loaded, AppliedTopology& applied) {
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
  const auto addresses = http.Listen(config.http, config.http_options);
  if (!addresses) return daemon.ReportError(addresses.error());
  const StoreLimits limits{.audit_age = std::chrono::hours(24) * config.audit_days,
                           .audit_moves = config.audit_moves};
  const auto store = OpenSqliteStore(config.state_file, loop, config.options.wall_clock, limits);
  if (!store) return daemon.ReportError(store.error());
  io::Background background(loop, io::Background::Priority::kLow);
  ControllerOptions options = config.options;
  options.background = [&background](std::function<void()> work, std::function<void()> done) {
    background.Run(std::move(work), std::move(done));
  };
  Controller controller(std::move(loaded.topology), options, loop, **bus, **store, metrics);
  (*bus)->OnRefusal([&](const io::PeerRefusal& refusal) {
    controller.HandleRefusal(refusal.who, io::PeerRefusalText(refusal.cause));
  });
  const Result<void> started = controller.Start();
  if (!started) return daemon.ReportError(started.error());
  applied.HandleStart(loaded, controller);

  Reloader reloader(daemon.config_file(), config, keys, **bus, http, controller);
  TimerPtr stop;  // leaves time for the answer
  applied.OnCommit([&] { stop = loop.After(kAnswerTime, [&] { loop.Stop(); }); });
  OperatorApi api(
      controller, metrics, [&] { return reloader.Answer(); }, &applied, config.history_bytes);
  HttpGuard the_guard(
      keys.tokens, config.options.wall_clock,
      [&](const auto& peer, const auto& reason) { controller.HandleRefusal(peer, reason); },
      [&](const io::HttpRequest& request, io::HttpServer::Respond respond) {
        api.Handle(request, std::move(respond));
      });
  if (!config.http_options.tls_certificate_file.empty()) the_guard.UseTls();
  the_guard.KeepLogins(config.state_file + ".logins");
  guard = &the_guard;
  http.Start();
  const std::vector<int> signals = {SIGINT, SIGTERM, SIGHUP};
  const TimerPtr watch = loop.WatchSignals(signals, [&](int signal) {
    if (signal != SIGHUP) return loop.Stop();
    (void)reloader.Reload();  // an event records the result
  });
  TimerPtr recheck;  // finds keys and tokens that have expired or are gone
  const std::function<void()> recheck_keys = [&] {
    (*bus)->RecheckKeys();
    the_guard.Recheck();
    recheck = loop.After(kRecheckKeysInterval, recheck_keys);
  };
  recheck_keys();
  Log(LogLevel::kInfo, "event=ready agents={} http={}", (*bus)->endpoint(),
      addresses->empty() ? "none" : fmt::format("{}", fmt::join(*addresses, ",")));
  io::ServiceNotifier notifier(loop);
  loop.Run();
  the_guard.Recheck();
  if (applied.has_committed()) notifier.StartAgain();
  Log(LogLevel::kInfo, "event=stopped");
  return 0;
}

int Main(int argc, char** argv) {
  io::Daemon daemon("espalier-controller",
                    "The Espalier controller: assigns paths to the elephant flows of a cluster.",
                    "Check configuration and topology, then exit");
  if (const std::optional<int> exit = daemon.Parse(argc, argv)) return *exit;
  while (true) {
    const Result<Configuration> config = ReadConfiguration(daemon.config_file());
    if (!config) return daemon.ReportError(config.error());
    const Result<void> can_listen = CheckListenAddresses(*config, daemon.config_file());
    if (!can_listen) return daemon.ReportError(can_listen.error());
    AppliedTopology applied(config->topology_file, config->state_file);
    Result<AppliedTopology::Loaded> loaded = applied.Load();
    if (!loaded) return daemon.ReportError(loaded.error());
    Result<Keys> keys = ReadKeys(*config);
    if (!keys) return daemon.ReportError(keys.error());
    if (daemon.is_check()) {
      // Not an error, as a service manager creates its folder at the start.
      const Result<void> has_folder = CheckStoreFolder(config->state_file);
      if (!has_folder) fmt::print(stderr, "warning: {}\n", has_folder.error().message);
      return daemon.ReportChecked(fmt::format("{} nodes, {} links", loaded->topology.nodes().size(),
                                              loaded->topology.links().size()),
                                  config->fields);
    }
    SetLogLevel(config->log_level);
    const int exit = Run(daemon, *config, std::move(*keys), std::move(*loaded), applied);
    // An applied topology takes effect as it does after a restart: agents connect again, and their
    // flows keep their ports.
    if (exit != 0 || !applied.has_committed()) return exit;
    Log(LogLevel::kInfo, "event=starts_again cause=topology_applied");
  }
}

}  // namespace
}  // namespace espalier::controller

int main(int argc, char** argv) { return espalier::controller::Main(argc, argv); }
