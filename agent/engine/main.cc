// espalier-engine: the offload service, which runs collectives for programs on its host as an
// unprivileged process in a sandbox.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>

#include "agent/engine/agent_job_directory.h"
#include "agent/engine/configuration.h"
#include "agent/engine/listening_socket.h"
#include "agent/engine/sandbox.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/daemon/daemon.h"
#include "common/daemon/service_notifier.h"
#include "common/http/http.h"
#include "common/http/http_server.h"
#include "common/loop/asio_event_loop.h"
#include "common/os/message_socket.h"
#include "common/verbs/roce_address.h"

namespace espalier::engine {
namespace {

// The metrics of the offload service.
class EngineMetrics {
 public:
  explicit EngineMetrics(Metrics& metrics)
      : metrics_(metrics),
        sessions_(
            metrics.MakeGauge("espalier_engine_sessions", "Ranks that the offload service serves")),
        silent_(metrics.MakeGauge("espalier_engine_silent_connections",
                                  "Connections to the offload service without a request yet")),
        memory_(metrics.MakeGauge("espalier_engine_memory_bytes",
                                  "Memory that the offload service uses for groups and programs, "
                                  "in bytes")),
        shared_(metrics.MakeGauge("espalier_engine_shared_bytes",
                                  "Size of the programs' buffers that the offload service has "
                                  "mapped, in bytes")),
        refused_(metrics.MakeCounter("espalier_engine_refused_total",
                                     "Connections refused because of a limit, or because they "
                                     "made no request in time")),
        failed_(metrics.MakeCounter("espalier_engine_failed_sessions_total",
                                    "Requests, calls and sessions that failed because of a memory "
                                    "limit or an internal error")) {}

  std::string Text(const runtime::OffloadCounts& counts) {
    sessions_.Set(static_cast<double>(counts.sessions));
    silent_.Set(static_cast<double>(counts.silent));
    memory_.Set(static_cast<double>(counts.memory_bytes));
    shared_.Set(static_cast<double>(counts.shared_bytes));
    refused_.Add(static_cast<std::int64_t>(counts.refused - exported_.refused));
    failed_.Add(static_cast<std::int64_t>(counts.failed - exported_.failed));
    exported_ = counts;
    return metrics_.Text();
  }

 private:
  Metrics& metrics_;
  Gauge& sessions_;
  Gauge& silent_;
  Gauge& memory_;
  Gauge& shared_;
  Counter& refused_;
  Counter& failed_;
  runtime::OffloadCounts exported_;
};

io::HttpResponse Answer(const io::HttpRequest& request, const runtime::OffloadService& engine,
                        EngineMetrics& metrics) {
  if (request.path == "/metrics") {
    return {.content_type = "text/plain; version=0.0.4", .body = metrics.Text(engine.counts())};
  }
  if (request.path == "/healthz") return {.body = "{\"status\": \"ok\"}\n"};
  return {.status = 404, .body = "{\"error\": \"not found (use /metrics or /healthz)\"}\n"};
}

// Returns systemd's socket, or a new one, which must be made before the sandbox forbids it.
Result<UniqueFd> ListenForPrograms(const Configuration& config) {
  auto socket = TakeSocketOfSystemd();
  if (!socket || *socket) return socket;
  return ListenOnPath(config.socket);
}

int Run(const io::Daemon& daemon, Configuration config) {
  auto listener = ListenForPrograms(config);
  if (!listener) return daemon.ReportError(listener.error());
  if (const auto became = BecomeUser(config.user); !became)
    return daemon.ReportError(became.error());
  // Loads the drivers of RDMA devices before the sandbox forbids it.
  static_cast<void>(verbs::ListRoceAddresses());
  if (const auto entered = EnterSandbox(); !entered) return daemon.ReportError(entered.error());
  if (::geteuid() == 0) {
    Log(LogLevel::kWarning, "event=runs_as_root what=\"set the field user in the configuration\"");
  }
  io::AsioEventLoop loop;
  Metrics metrics;
  EngineMetrics engine_metrics(metrics);
  AgentJobDirectory authority(config.agent_socket);
  config.offload.authority = &authority;
  const auto engine = runtime::OffloadService::Serve(std::move(*listener), config.offload);
  if (!engine) return daemon.ReportError(engine.error());
  const auto http = io::HttpServer::Listen(loop, config.http, [&](const io::HttpRequest& request) {
    return Answer(request, **engine, engine_metrics);
  });
  if (!http) return daemon.ReportError(http.error());
  const std::array<int, 2> signals = {SIGINT, SIGTERM};
  const TimerPtr signal_watch = loop.WatchSignals(signals, [&](int) { loop.Stop(); });
  Log(LogLevel::kInfo, "event=ready socket={} agent={} http={} networks={}", config.socket,
      config.agent_socket, (*http)->address(), config.offload.networks.size());
  constexpr Duration kDispatch = std::chrono::milliseconds(200);
  TimerPtr dispatch;
  const std::function<void()> follow_agent = [&] {
    authority.Dispatch();
    dispatch = loop.After(kDispatch, follow_agent);
  };
  follow_agent();
  const io::ServiceNotifier notifier(loop);
  loop.Run();
  Log(LogLevel::kInfo, "event=stopped");
  return 0;
}

int Main(int argc, char** argv) {
  io::Daemon daemon("espalier-engine",
                    "Offload service: runs collectives for programs on this host, along the trees "
                    "that the controller plans for their jobs.",
                    "Check the configuration, then exit");
  if (const std::optional<int> exit = daemon.Parse(argc, argv)) return *exit;
  Result<Configuration> config = ReadConfiguration(daemon.config_file());
  if (!config) return daemon.ReportError(config.error());
  if (daemon.is_check()) {
    return daemon.ReportChecked("programs connect to " + config->socket, config->fields);
  }
  SetLogLevel(config->log_level);
  return Run(daemon, std::move(*config));
}

}  // namespace
}  // namespace espalier::engine

int main(int argc, char** argv) { return espalier::engine::Main(argc, argv); }
