// espalier-telemetry: collects sFlow from switches, and tells the controller the loads of links.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <functional>
#include <optional>
#include <random>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/daemon/daemon.h"
#include "common/daemon/privileges.h"
#include "common/daemon/service_notifier.h"
#include "common/http/http.h"
#include "common/loop/asio_event_loop.h"
#include "controller/telemetry/collector.h"
#include "controller/telemetry/collector_view.h"
#include "controller/telemetry/controller_feed.h"
#include "controller/telemetry/daemon/configuration.h"
#include "controller/telemetry/datagram_socket.h"

namespace espalier::telemetry {
namespace {

constexpr Duration kReportInterval = std::chrono::milliseconds(500);
constexpr int kReportsOfFlows = 4;  // one in so many reports also tells the flows that were seen
constexpr std::size_t kMostTold = 2'000;    // flows in a report
constexpr std::uint32_t kLeastSamples = 3;  // of a flow that is told
constexpr std::size_t kBatchesOfTurn = 64;
constexpr std::size_t kMostShown = 10'000;  // flows in an answer

std::uint64_t Unpredictable() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

// The number of flows that a request asks for; none: the text is wrong.
std::optional<std::size_t> LimitOf(const io::HttpRequest& request) {
  const auto found = request.query.find("limit");
  if (found == request.query.end()) return 100;
  std::size_t limit = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  const bool is_good = error == std::errc() && end == text.data() + text.size() && limit > 0;
  return is_good && limit <= kMostShown ? std::optional(limit) : std::nullopt;
}

io::HttpResponse Answer(const io::HttpRequest& request, const Collector& collector,
                        const Metrics& metrics, TimePoint now) {
  constexpr const char* kJson = "application/json";
  if (request.path == "/metrics") {
    return {.content_type = "text/plain; version=0.0.4", .body = metrics.Text()};
  }
  if (request.path == "/healthz") return {.content_type = kJson, .body = "{\"status\": \"ok\"}\n"};
  if (request.path == "/exporters") {
    return {.content_type = kJson, .body = ShowExporters(collector, now)};
  }
  if (request.path == "/flows") {
    const std::optional<std::size_t> limit = LimitOf(request);
    if (!limit) {
      return {.status = 400,
              .content_type = kJson,
              .body = fmt::format("{{\"error\": \"limit must be 1 to {}\"}}\n", kMostShown)};
    }
    return {.content_type = kJson, .body = ShowFlows(collector, *limit, now)};
  }
  return {.status = 404,
          .content_type = kJson,
          .body = "{\"error\": \"not found (use /metrics, /healthz, /exporters or /flows)\"}\n"};
}

int Run(const io::Daemon& daemon, const Configuration& config) {
  const Result<void> gave_up = io::KeepOnlyCapabilities({});
  if (!gave_up) return daemon.ReportError(gave_up.error());
  io::AsioEventLoop loop;
  Metrics metrics;
  auto socket = DatagramSocket::Open(config.listen, config.receive_buffer_bytes);
  if (!socket) return daemon.ReportError(socket.error());
  Collector collector(config.topology, config.exporters,
                      {.most_flows = config.most_flows, .seed = Unpredictable()}, metrics);
  ControllerFeed feed(loop, config.topology, config.feed, metrics);
  const auto http = io::HttpServer::Listen(loop, config.http, [&](const io::HttpRequest& request) {
    return Answer(request, collector, metrics, loop.Now());
  });
  if (!http) return daemon.ReportError(http.error());
  const TimerPtr datagrams = loop.WatchReadable(socket->fd(), [&] {
    const TimePoint now = loop.Now();
    socket->Read(kBatchesOfTurn, [&](const IpAddress& source, std::span<const std::uint8_t> bytes) {
      collector.HandleDatagram(source, bytes, now);
    });
  });
  TimerPtr report_timer;
  int reports = 0;
  const std::function<void()> report = [&] {
    const TimePoint now = loop.Now();
    collector.Tick(now);
    feed.SendLoads(collector.TakeLoads(now));
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
  Log(LogLevel::kInfo, "event=ready listen={} http={} controller={} exporters={} buffer_bytes={}",
      socket->address(), (*http)->address(), config.feed.controller, config.exporters.size(),
      socket->buffer_bytes());
  const io::ServiceNotifier notifier(loop);
  loop.Run();
  Log(LogLevel::kInfo, "event=stopped");
  return 0;
}

int Main(int argc, char** argv) {
  io::Daemon daemon("espalier-telemetry",
                    "Espalier telemetry: collects sFlow from the fabric's switches, and tells the "
                    "controller how loaded links are.",
                    "Check the configuration, then exit");
  if (const std::optional<int> exit = daemon.Parse(argc, argv)) return *exit;
  const Result<Configuration> config = ReadConfiguration(daemon.config_file());
  if (!config) return daemon.ReportError(config.error());
  if (daemon.is_check()) {
    return daemon.ReportChecked(
        fmt::format("{} switches at {}", config->exporters.size(), config->listen), config->fields);
  }
  SetLogLevel(config->log_level);
  return Run(daemon, *config);
}

}  // namespace
}  // namespace espalier::telemetry

int main(int argc, char** argv) { return espalier::telemetry::Main(argc, argv); }
