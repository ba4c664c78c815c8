// espalier-agent: connects the agent to its loop, its bus and the sockets of its host.
#include <fmt/format.h>
#include <linux/capability.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>

#include "agent/agent.h"
#include "agent/daemon/configuration.h"
#include "agent/flows/flow_groups.h"
#include "agent/host/device_report.h"
#include "agent/host/nic_watch.h"
#include "agent/host/port_routes.h"
#include "agent/host/transport_readers.h"
#include "agent/host/unobserved_watch.h"
#include "agent/local/local_server.h"
#include "agent/local/rank_plan_protocol.h"
#include "agent/local/rank_plan_server.h"
#include "agent/probe/sockets/probing.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/bus/zmq_dealer_bus.h"
#include "common/daemon/daemon.h"
#include "common/daemon/privileges.h"
#include "common/daemon/service_notifier.h"
#include "common/http/http.h"
#include "common/http/http_thread.h"
#include "common/loop/asio_event_loop.h"
#include "common/loop/background.h"
#include "common/os/message_socket.h"

namespace espalier::agent {
namespace {

std::uint64_t RandomInstance() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

void LogDevices() {
  for (const auto& [address, control] : ReportDevices()) {
    Log(LogLevel::kInfo, "event=rdma_device device={} port={} address={} gid_index={} {}",
        address.device, address.port, address.address.ToString(), address.gid_index,
        verbs::DescribeControl(control));
  }
}

io::HttpResponse Answer(const io::HttpRequest& query, const Agent& agent, const Metrics& metrics) {
  if (query.path == "/metrics") {
    return {.content_type = "text/plain; version=0.0.4", .body = metrics.Text()};
  }
  if (query.path == "/healthz") {
    return {.body = fmt::format("{{\"status\": \"ok\", \"state\": \"{}\"}}\n",
                                AgentStateName(agent.state()))};
  }
  return {.status = 404, .body = "{\"error\": \"not found (use /metrics or /healthz)\"}\n"};
}

int Run(const io::Daemon& daemon, Configuration config, std::optional<io::CurveClient> keys) {
  io::AsioEventLoop loop;
  Metrics metrics;
  const auto nics = NicWatch::Open(config.nics);
  if (!nics) return daemon.ReportError(nics.error());
  const auto is_own = std::bind_front(&NicWatch::Has, nics->get());
  auto routes = PortRoutes::Open();
  if (!routes) return daemon.ReportError(routes.error());
  const Probing probes = OpenProbing(loop, config.probing, is_own,
                                     std::bind_front(&PortRoutes::InterfaceOf, &*routes));
  const Result<void> gave_up = io::KeepOnlyCapabilities(std::vector<int>{CAP_NET_RAW});  // probes
  if (!gave_up) return daemon.ReportError(gave_up.error());
  const auto local = LocalServer::Listen(loop, {.path = config.local_socket}, metrics);
  if (!local) return daemon.ReportError(local.error());
  io::Background background(loop);
  RankPlanServerOptions of_plans = {config.local_socket + kPlanSocketSuffix};
  of_plans.engine_user = config.engine_user;
  of_plans.background = std::bind_front(&io::Background::Run, &background);
  const auto plans = RankPlanServer::Listen(loop, of_plans, metrics);
  if (!plans) return daemon.ReportError(plans.error());
  const auto bus =
      io::ZmqDealerBus::Connect(loop, {.endpoint = config.controller, .curve = std::move(keys)});
  if (!bus) return daemon.ReportError(bus.error());
  config.options.instance = RandomInstance();
  config.options.nics = (*nics)->nics();
  config.options.guard.transports = MakeTransportReaders(**nics);
  config.options.sampler.transports = config.options.guard.transports;
  config.options.dynamic_features = [path = config.local_socket + kOffloadSocketSuffix] {
    // The offload service is a process of its own (espalier-engine) that is optional.
    return IsListenedTo(path) ? std::vector<std::string>{"offload"} : std::vector<std::string>();
  };
  for (const std::string& name : probes.features) config.options.features.push_back(name);
  FlowGroups groups(loop, **local, **local, {.max_members = config.group_queue_pairs ? 16U : 1U});
  Agent agent(config.options, loop, **bus, groups, groups, *probes.socket, *probes.trains, metrics);
  io::HttpThread http(loop, [&](const io::HttpRequest& request, const auto& respond) {
    respond(Answer(request, agent, metrics));
  });
  const Result<std::string> http_address = http.Listen(config.http, {});
  if (!http_address) return daemon.ReportError(http_address.error());
  http.Start();
  agent.OnPlan([&plans](const wire::RankPlan& plan) { (*plans)->SetPlan(plan); });
  (*plans)->OnReport([&agent](const wire::CollectiveReport& report) { agent.SendReport(report); });
  const TimerPtr plan_watch =
      loop.WatchReadable((*plans)->fd(), [&plans] { (*plans)->HandleReady(); });
  (*nics)->OnChange([&agent](const wire::Nic& nic) { agent.HandleNic(nic); });
  const TimerPtr local_watch =
      loop.WatchReadable((*local)->fd(), [&local] { (*local)->HandleReady(); });
  const TimerPtr nic_watch = loop.WatchReadable((*nics)->fd(), [&nics] { (*nics)->HandleReady(); });
  const std::array<int, 3> signals = {SIGINT, SIGTERM, SIGHUP};
  const TimerPtr signal_watch = loop.WatchSignals(signals, [&](int signal) {
    return signal == SIGHUP ? Reload(daemon.config_file(), config, **bus) : loop.Stop();
  });
  LogDevices();
  const UnobservedWatch unobserved(loop, **local, metrics);
  agent.Start();
  Log(LogLevel::kInfo, "event=ready agent={} controller={} local={} http={} nics={}",
      config.options.name, config.controller, config.local_socket, *http_address,
      config.options.nics.size());
  const io::ServiceNotifier notifier(loop);
  loop.Run();
  // Ports are not cleared: programs keep them for a grace period in which an agent may return.
  Log(LogLevel::kInfo, "event=stopped agent={}", config.options.name);
  return 0;
}

int Main(int argc, char** argv) {
  io::Daemon daemon(
      "espalier-agent",
      "Espalier agent: reports the elephant flows of a host and gives them their paths.",
      "Check the configuration, then exit");
  if (const std::optional<int> exit = daemon.Parse(argc, argv)) return *exit;
  Result<Configuration> config = ReadConfiguration(daemon.config_file());
  if (!config) return daemon.ReportError(config.error());
  Result<std::optional<io::CurveClient>> keys = ReadKeys(*config);
  if (!keys) return daemon.ReportError(keys.error());
  if (daemon.is_check()) {
    return daemon.ReportChecked(
        fmt::format("agent {} of {}", config->options.name, config->controller), config->fields);
  }
  SetLogLevel(config->log_level);
  if (!*keys) Log(LogLevel::kWarning, "event=insecure_plaintext");
  return Run(daemon, std::move(*config), std::move(*keys));
}

}  // namespace
}  // namespace espalier::agent

int main(int argc, char** argv) { return espalier::agent::Main(argc, argv); }
