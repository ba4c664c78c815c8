#include "tests/scenarios/sim_cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"

namespace espalier::scenarios {
namespace {

constexpr Duration kLookInterval = std::chrono::milliseconds(5);

fabric::Topology MakeTopology(const ClusterOptions& options, bool with_hash) {
  auto spec = fabric::BuildLeafSpine(options.shape).value();
  std::uint64_t seed = 1000 * options.seed;
  for (fabric::Node& node : spec.nodes) {
    if (with_hash && node.kind == fabric::NodeKind::kSwitch) node.ecmp = {options.hash, ++seed};
  }
  return fabric::Topology::Build(std::move(spec)).value();
}

}  // namespace

struct SimCluster::ControllerProcess {
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<Bus> bus;
  std::unique_ptr<controller::MemoryStore> store;
  Metrics metrics;
  std::unique_ptr<controller::Controller> controller;
};

struct SimCluster::AgentProcess {
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<Bus> bus;
  Metrics metrics;
  std::unique_ptr<agent::Agent> agent;
};

SimCluster::SimCluster(const ClusterOptions& options)
    : options_(options),
      world_(options.seed),
      random_(world_.MakeRandom()),
      network_(world_),
      hardware_loop_(world_.MakeLoop()),
      fabric_(sim::SimFabric::Build(*hardware_loop_, MakeTopology(options, /*with_hash=*/true))
                  .value()) {
  SetLogLevel(LogLevel::kError);
  network_.SetFaults(options.faults);
  const int hosts = options.shape.leaves * options.shape.hosts_per_leaf;
  for (int i = 0; i < hosts; ++i) {
    const auto nic = fabric_->topology().FindNode(HostName(i));
    hosts_.push_back(std::make_unique<sim::SimHost>(*fabric_, *hardware_loop_, *nic));
  }
  processes_.resize(hosts_.size());
}

SimCluster::~SimCluster() = default;

controller::Controller& SimCluster::controller() { return *controller_->controller; }

agent::Agent& SimCluster::agent(int host) { return *processes_[Index(host)]->agent; }

void SimCluster::StartController() {
  ESPALIER_CHECK(controller_ == nullptr);
  controller_ = std::make_unique<ControllerProcess>();
  controller_->loop = world_.MakeLoop();
  controller_->bus = network_.MakeController(*controller_->loop);
  controller_->store = std::make_unique<controller::MemoryStore>(disk_, *controller_->loop);
  controller::ControllerOptions options = options_.controller;
  options.instance = random_.Next();
  controller_->controller = std::make_unique<controller::Controller>(
      MakeTopology(options_, options_.controller_knows_hash), options, *controller_->loop,
      *controller_->bus, *controller_->store, controller_->metrics);
  const Result<void> started = controller_->controller->Start();
  ESPALIER_CHECK(started, "error={}", started.error().message);
}

void SimCluster::KillController() { controller_.reset(); }

void SimCluster::StartAgent(int host) {
  std::unique_ptr<AgentProcess>& process = processes_[Index(host)];
  ESPALIER_CHECK(process == nullptr);
  process = std::make_unique<AgentProcess>();
  process->loop = world_.MakeLoop();
  process->bus = network_.MakeAgent(*process->loop, HostName(host));
  sim::SimHost& hardware = *hosts_[Index(host)];
  agent::AgentOptions options;
  options.name = HostName(host);
  options.instance = random_.Next();
  options.nics = {{.address = hardware.address(), .device = "nic0", .link_up = true}};
  process->agent = std::make_unique<agent::Agent>(options, *process->loop, *process->bus, hardware,
                                                  hardware, hardware, process->metrics);
  process->agent->Start();
}

void SimCluster::KillAgent(int host) { processes_[Index(host)].reset(); }

void SimCluster::StartAll() {
  StartController();
  for (int i = 0; i < host_count(); ++i) StartAgent(i);
}

Result<controller::ActionOutcome> SimCluster::ChangeLink(const std::string& link,
                                                         controller::IntentAction action,
                                                         controller::OperatorRequest request) {
  std::optional<Result<controller::ActionOutcome>> outcome;
  controller().actions().ChangeLink(
      link, action, std::move(request),
      [&](Result<controller::ActionOutcome> done) { outcome = done; });
  RunUntil([&] { return outcome.has_value(); }, std::chrono::seconds(1));
  ESPALIER_CHECK(outcome.has_value(), "link={}", link);
  return *outcome;
}

std::vector<SimCluster::FlowRef> SimCluster::StartPermutation(int shift, std::uint64_t bytes,
                                                              std::uint8_t paths) {
  std::vector<FlowRef> flows;
  for (int i = 0; i < host_count(); ++i) {
    const int to = (i + shift * options_.shape.hosts_per_leaf) % host_count();
    const auto flow = host(i).Open(
        {.destination = host(to).address(), .bytes = bytes, .job = "j", .paths = paths});
    flows.push_back({i, flow});
  }
  return flows;
}

std::uint16_t SimCluster::PortOf(const FlowRef& flow) {
  if (!host(flow.host).IsOpen(flow.flow)) return 0;
  return fabric_->TupleOf(host(flow.host).FabricFlow(flow.flow)).source_port;
}

std::vector<std::uint16_t> SimCluster::PortsOf(const std::vector<FlowRef>& flows) {
  std::vector<std::uint16_t> ports;
  for (const FlowRef& flow : flows) ports.push_back(PortOf(flow));
  return ports;
}

std::vector<std::uint16_t> SimCluster::AllPortsOf(const FlowRef& flow) {
  std::vector<std::uint16_t> ports;
  for (const sim::SimFlowId part : host(flow.host).FabricFlows(flow.flow)) {
    ports.push_back(fabric_->TupleOf(part).source_port);
  }
  return ports;
}

bool SimCluster::StandsStill(const FlowRef& flow) {
  if (!host(flow.host).IsOpen(flow.flow)) return false;
  const auto& parts = host(flow.host).FabricFlows(flow.flow);
  return std::any_of(parts.begin(), parts.end(),
                     [&](sim::SimFlowId part) { return fabric_->ProgressOf(part).stands_still; });
}

int SimCluster::MaxLinkFlows() {
  const std::vector<int> flows = fabric_->LinkFlows();
  return *std::max_element(flows.begin(), flows.end());
}

bool SimCluster::AllRouted(const std::vector<FlowRef>& flows) {
  if (controller_ == nullptr) return false;
  const controller::State& state = controller().state();
  return std::all_of(flows.begin(), flows.end(), [&](const FlowRef& flow) {
    if (!host(flow.host).IsOpen(flow.flow)) return true;
    const auto agent = state.agents.FindByName(HostName(flow.host));
    const auto slot = agent ? state.flows.Find(*agent, flow.flow) : std::nullopt;
    if (!slot) return false;
    const controller::Flow& known = state.flows.At(*slot);
    std::vector<std::uint16_t> given;
    for (const controller::Subflow& subflow : known.subflows) given.push_back(subflow.port);
    return known.status == controller::FlowStatus::kRouted && given == AllPortsOf(flow);
  });
}

bool SimCluster::RunUntil(const std::function<bool()>& done, Duration limit) {
  // Checks the condition only now and then, as evaluating it costs more than the steps between.
  const TimePoint end = world_.Now() + limit;
  while (!done()) {
    if (world_.Now() >= end) return false;
    world_.RunFor(kLookInterval);
  }
  return true;
}

}  // namespace espalier::scenarios
