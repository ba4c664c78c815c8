// espalier-dpdk: forwards packets between a host and its fabric, and gives RoCEv2 packets the
// source ports that the host's agent chooses.
#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <optional>

#include "agent/dpdk/configuration.h"
#include "agent/dpdk/datapath.h"
#include "agent/dpdk/flow_control.h"
#include "agent/dpdk/offload/rte_rules.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/daemon/daemon.h"
#include "common/daemon/service_notifier.h"
#include "common/http/http.h"
#include "common/http/http_server.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::dpdk {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(2);
constexpr Duration kLook = std::chrono::milliseconds(500);

io::HttpResponse Answer(const io::HttpRequest& request, const Metrics& metrics) {
  if (request.path == "/metrics") {
    return {.content_type = "text/plain; version=0.0.4", .body = metrics.Text()};
  }
  if (request.path == "/healthz") return {.body = "{\"status\": \"ok\"}\n"};
  return {.status = 404, .body = "{\"error\": \"not found (use /metrics or /healthz)\"}\n"};
}

// The periodic work of the control thread.
class Control {
 public:
  Control(io::AsioEventLoop& loop, Datapath& datapath, FlowControl& flows)
      : loop_(loop), datapath_(datapath), flows_(flows) {}

  void Tick() {
    const TimePoint now = loop_.Now();
    for (std::size_t core = 0; core < datapath_.cores(); ++core) {
      while (const std::optional<FlowEvent> event = datapath_.events(core).Pop()) {
        flows_.Handle(*event, now);
      }
    }
    flows_.Tick(now);
    tick_ = loop_.After(kTick, [this] { Tick(); });
  }

  void Look() {
    datapath_.UpdateMetrics();
    for (const Port* port : {&datapath_.host(), &datapath_.fabric()}) {
      if (port->IsPresent()) continue;
      Log(LogLevel::kError, "event=port_vanished port={}", port->name());
      lost_port_ = true;
      return loop_.Stop();
    }
    look_ = loop_.After(kLook, [this] { Look(); });
  }

  bool lost_port() const { return lost_port_; }

 private:
  io::AsioEventLoop& loop_;
  Datapath& datapath_;
  FlowControl& flows_;
  TimerPtr tick_;
  TimerPtr look_;
  bool lost_port_ = false;
};

// Returns null if cores rewrite all flows.
std::unique_ptr<DeviceRules> OpenRules(const Configuration& config, const Datapath& datapath) {
  if (!config.offloads) return nullptr;
  Result<std::unique_ptr<RteRules>> rules = RteRules::Open({.host_port = datapath.host().id(),
                                                            .fabric_port = datapath.fabric().id(),
                                                            .group = config.offload_group});
  if (rules) return std::move(*rules);
  Log(LogLevel::kWarning, "event=offload_unsupported group={} what=\"{}\"", config.offload_group,
      rules.error().message);
  return nullptr;
}

int Run(const io::Daemon& daemon, const Configuration& config) {
  const Result<void> started = StartEnvironment(config.eal);
  if (!started) return daemon.ReportError(started.error());
  io::AsioEventLoop loop;
  Metrics metrics;
  const Result<std::unique_ptr<Datapath>> datapath = Datapath::Open(config.datapath, metrics);
  if (!datapath) return daemon.ReportError(datapath.error());
  const std::unique_ptr<DeviceRules> rules = OpenRules(config, **datapath);
  FlowControl flows((*datapath)->table(), config.control, rules.get(), metrics);
  const auto http = io::HttpServer::Listen(loop, config.http, [&](const io::HttpRequest& request) {
    (*datapath)->UpdateMetrics();
    return Answer(request, metrics);
  });
  if (!http) return daemon.ReportError(http.error());
  const std::array<int, 2> signals = {SIGINT, SIGTERM};
  const TimerPtr signal_watch = loop.WatchSignals(signals, [&](int) { loop.Stop(); });
  const Result<void> running = (*datapath)->Start();
  if (!running) return daemon.ReportError(running.error());
  Control control(loop, **datapath, flows);
  control.Tick();
  control.Look();
  Log(LogLevel::kInfo,
      "event=ready host_port={} fabric_port={} cores={} offload={} agent={} http={}",
      config.datapath.host_port, config.datapath.fabric_port, (*datapath)->cores(),
      rules == nullptr ? "no" : "yes", config.control.agent_socket, (*http)->address());
  const io::ServiceNotifier notifier(loop);
  loop.Run();
  Log(LogLevel::kInfo, "event=stopped");
  return control.lost_port() ? 1 : 0;
}

int Main(int argc, char** argv) {
  io::Daemon daemon("espalier-dpdk",
                    "Datapath: forwards a host's packets to the fabric and steers RoCEv2 flows.",
                    "Check the configuration, then exit");
  if (const std::optional<int> exit = daemon.Parse(argc, argv)) return *exit;
  const Result<Configuration> config = ReadConfiguration(daemon.config_file());
  if (!config) return daemon.ReportError(config.error());
  if (daemon.is_check()) {
    return daemon.ReportChecked(
        fmt::format("{} to {}", config->datapath.host_port, config->datapath.fabric_port),
        config->fields);
  }
  SetLogLevel(config->log_level);
  return Run(daemon, *config);
}

}  // namespace
}  // namespace espalier::dpdk

int main(int argc, char** argv) { return espalier::dpdk::Main(argc, argv); }
