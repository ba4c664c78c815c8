// espalier-telemetry: collects sFlow from switches and polls them, and reports states and loads of
// links to the controller.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <optional>
#include <random>
#include <utility>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/daemon/daemon.h"
#include "common/daemon/privileges.h"
#include "common/daemon/service_notifier.h"
#include "common/http/http.h"
#include "common/http/http_server.h"
#include "common/loop/asio_event_loop.h"
#include "controller/telemetry/collector.h"
#include "controller/telemetry/controller_feed.h"
#include "controller/telemetry/daemon/configuration.h"
#include "controller/telemetry/daemon/http_answers.h"
#include "controller/telemetry/datagram_socket.h"
#include "controller/telemetry/polls/poller.h"
#include "controller/telemetry/polls/state_reports.h"

namespace espalier::telemetry {
namespace {

constexpr Duration kReportInterval = std::chrono::milliseconds(500);
constexpr int kReportsOfFlows = 4;  // one in so many reports also tells the flows that were seen
constexpr std::size_t kMostTold = 2'000;    // flows in a report
constexpr std::uint32_t kLeastSamples = 3;  // of a flow that is told
constexpr std::size_t kBatchesOfTurn = 64;
constexpr Duration kMostOfRequest = std::chrono::seconds(10);  // to a polled switch

std::uint64_t Unpredictable() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

int Run(const io::Daemon& daemon, const Configuration& config) {
  const Result<void> gave_up = io::KeepOnlyCapabilities({});
  if (!gave_up) return daemon.ReportError(gave_up.error());
  io::AsioEventLoop loop;
  Metrics metrics;
  std::optional<DatagramSocket> socket;
  if (!config.exporters.empty()) {
    auto opened = DatagramSocket::Open(config.listen, config.receive_buffer_bytes);
    if (!opened) return daemon.ReportError(opened.error());
    socket = std::move(*opened);
  }
  Collector collector(config.topology, config.exporters,
                      {.most_flows = config.most_flows, .seed = Unpredictable()}, metrics);
  PolledSwitches switches(config.topology, config.polls, config.polling, metrics, loop.Now());
  ControllerFeed feed(loop, config.topology, config.feed, metrics);
  StateReports states(feed, config.topology, switches.links(), metrics);
  const auto http = io::HttpServer::Listen(loop, config.http, [&](const io::HttpRequest& request) {
    return AnswerRequest(request, collector, switches, metrics, loop.Now());
  });
  if (!http) return daemon.ReportError(http.error());
  const auto read_datagrams = [&] {
    const TimePoint now = loop.Now();
    socket->Read(kBatchesOfTurn, [&](const IpAddress& source, std::span<const std::uint8_t> bytes) {
      collector.HandleDatagram(source, bytes, now);
    });
  };
  const TimerPtr datagrams = socket ? loop.WatchReadable(socket->fd(), read_datagrams) : nullptr;
  const Poller poller(loop, switches,
                      {.interval = config.polling.interval,
                       .timeout = std::min(3 * config.polling.interval, kMostOfRequest),
                       .ca_file = config.feed.access.ca_file,
                       .seed = Unpredictable()},
                      [&] { states.Send(); });
  TimerPtr report_timer;
  int reports = 0;
  const std::function<void()> report = [&] {
    const TimePoint now = loop.Now();
    collector.Tick(now);
    switches.Tick(now);
    states.Send();
    feed.SendLoads(switches.TakeLoads(collector.TakeLoads(now), now));
    if (++reports % kReportsOfFlows == 0) {
      const SampledFlows& flows = collector.flows();
      feed.SendFlows(flows.Top(kMostTold, kLeastSamples, now), flows.WindowAt(now));
    }
    report_timer = loop.After(kReportInterval, report);
  };
  report();
  const std::array<int, 3> signals = {SIGINT, SIGTERM, SIGHUP};
  const TimerPtr signal_watch = loop.WatchSignals(signals, [&](int signal) {
    if (signal != SIGHUP) return loop.Stop();
    const Result<Configuration> again = ReadConfiguration(daemon.config_file());
    if (!again) return Log(LogLevel::kWarning, "event=reload_refused {}", again.error().message);
    SetLogLevel(again->log_level);
    const std::vector<std::string> others = io::NeedRestart(config.fields, again->fields);
    Log(LogLevel::kInfo, "event=reloaded need_restart={}",
        others.empty() ? "none" : fmt::format("{}", fmt::join(others, ",")));
  });
  Log(LogLevel::kInfo,
      "event=ready listen={} http={} controller={} exporters={} buffer_bytes={} polls={}",
      socket ? socket->address() : "none", (*http)->address(), config.feed.controller,
      config.exporters.size(), socket ? socket->buffer_bytes() : 0, config.polls.size());
  const io::ServiceNotifier notifier(loop);
  loop.Run();
  Log(LogLevel::kInfo, "event=stopped");
  return 0;
}

int Main(int argc, char** argv) {
  io::Daemon daemon("espalier-telemetry",
                    "Espalier telemetry: collects sFlow from the fabric's switches and polls them, "
                    "and reports the states and loads of links to the controller.",
                    "Check the configuration, then exit");
  if (const std::optional<int> exit = daemon.Parse(argc, argv)) return *exit;
  const Result<Configuration> config = ReadConfiguration(daemon.config_file());
  if (!config) return daemon.ReportError(config.error());
  if (daemon.is_check()) {
    return daemon.ReportChecked(fmt::format("{} switches at {}, {} polls", config->exporters.size(),
                                            config->listen, config->polls.size()),
                                config->fields);
  }
  SetLogLevel(config->log_level);
  return Run(daemon, *config);
}

}  // namespace
}  // namespace espalier::telemetry

int main(int argc, char** argv) { return espalier::telemetry::Main(argc, argv); }
