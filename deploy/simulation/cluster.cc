#include "deploy/simulation/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/fabric/ecmp/ecmp_hash.h"
#include "common/fabric/paths.h"

namespace espalier::simulation {
namespace {

constexpr Duration kLookInterval = std::chrono::milliseconds(5);
// When virtual time begins: 2026-01-01T00:00Z.
constexpr WallTime kWallStart{std::chrono::seconds(1'767'225'600)};

controller::MemoryDisk MakeDisk(std::uint64_t seed) {
  Random random(Mix64(seed + 1));
  JobKey::Bytes secret{};
  for (std::uint8_t& byte : secret) byte = static_cast<std::uint8_t>(random.Next());
  controller::MemoryDisk disk;
  disk.job_secret = JobKey(secret);
  return disk;
}

Result<void> CheckHash(const fabric::Node& node) {
  if (!node.ecmp) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("switch {} has no `ecmp` (add its hash)", node.id));
  }
  const auto hash = fabric::MakeEcmpHash(*node.ecmp);
  if (hash) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("switch {}: {}", node.id, hash.error().message));
}

}  // namespace

std::vector<fabric::NodeId> ListNics(const fabric::Topology& topology) {
  std::vector<fabric::NodeId> nics;
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    const fabric::NodeId node(static_cast<std::int32_t>(i));
    if (topology.IsFlowEndpoint(node)) nics.push_back(node);
  }
  return nics;
}

Result<void> CheckFabric(const fabric::TopologySpec& spec) {
  const auto topology = fabric::Topology::Build(spec);
  if (!topology) return tl::unexpected<Error>(topology.error().error);
  for (const fabric::Node& node : topology->nodes()) {
    if (node.kind != fabric::NodeKind::kSwitch || !node.host.empty()) continue;
    if (auto checked = CheckHash(node); !checked) return checked;
  }
  const fabric::PathTable paths(*topology);
  std::set<std::string> names;
  for (const fabric::NodeId nic : ListNics(*topology)) {
    const fabric::Node& node = topology->node(nic);
    std::string_view fault;
    if (node.addresses.empty()) fault = "has no address (add \"addresses\")";
    if (!paths.FindAttachment(nic))
      fault = "has no link to a switch, or an uplink that nothing can choose";
    if (!names.insert(HostOf(node)).second) fault = "is a second NIC of its host (use one a host)";
    if (!fault.empty()) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{} {}", node.id, fault));
    }
  }
  if (names.size() < 2) {
    return Fail(ErrorCode::kInvalidArgument, "a cluster needs at least two hosts");
  }
  return {};
}

struct Cluster::ControllerProcess {
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<Bus> bus;
  std::unique_ptr<controller::MemoryStore> store;
  std::unique_ptr<controller::Controller> controller;
};

struct Cluster::AgentProcess {
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<Bus> bus;
  std::unique_ptr<agent::Agent> agent;
};

Cluster::Cluster(ClusterOptions options)
    : options_(std::move(options)),
      world_(options_.seed),
      random_(world_.MakeRandom()),
      network_(world_),
      hardware_loop_(world_.MakeLoop()),
      fabric_(
          sim::SimFabric::Build(*hardware_loop_, fabric::Topology::Build(options_.fabric).value())
              .value()),
      trains_([this](const auto& tuple, std::uint8_t dscp) { return fabric_->Carry(tuple, dscp); },
              *hardware_loop_),
      disk_(MakeDisk(options_.seed)),
      nics_(ListNics(fabric_->topology())) {
  network_.SetFaults(options_.faults);
  fabric_->troubles().SetSeed(options_.seed);
  for (const fabric::NodeId nic : nics_) {
    names_.push_back(HostOf(fabric_->topology().node(nic)));
    hosts_.push_back(std::make_unique<sim::SimHost>(*fabric_, *hardware_loop_, nic));
    train_sockets_.push_back(
        std::make_unique<sim::SimTrainSocket>(trains_, hosts_.back()->address()));
    actuators_.push_back(
        std::make_unique<PathChangeCounter>(*fabric_, *hosts_.back(), path_changes_));
  }
  processes_.resize(hosts_.size());
}

Cluster::~Cluster() = default;

controller::Controller& Cluster::controller() { return *controller_->controller; }

const controller::Controller& Cluster::controller() const { return *controller_->controller; }

agent::Agent& Cluster::agent(int host) { return *processes_[Index(host)]->agent; }

fabric::Topology Cluster::ControllersTopology() const {
  fabric::TopologySpec spec = options_.fabric;
  if (!options_.controller_knows_hashes) {
    for (fabric::Node& node : spec.nodes) node.ecmp.reset();
  }
  return fabric::Topology::Build(std::move(spec)).value();
}

WallTime Cluster::WallNow() const {
  return kWallStart +
         std::chrono::duration_cast<std::chrono::microseconds>(world_.Now().time_since_epoch());
}

void Cluster::StartController() {
  ESPALIER_CHECK(controller_ == nullptr);
  controller_ = std::make_unique<ControllerProcess>();
  controller_->loop = world_.MakeLoop();
  controller_->bus = network_.MakeController(*controller_->loop);
  controller_->store = std::make_unique<controller::MemoryStore>(disk_, *controller_->loop);
  controller::ControllerOptions options = options_.controller;
  options.instance = random_.Next();
  options.wall_clock = [this] { return WallNow(); };
  controller_->controller = std::make_unique<controller::Controller>(
      ControllersTopology(), options, *controller_->loop, *controller_->bus, *controller_->store,
      controller_metrics_);
  const Result<void> started = controller_->controller->Start();
  ESPALIER_CHECK(started, "error={}", started.error().message);
}

void Cluster::KillController() { controller_.reset(); }

void Cluster::StartAgent(int host) {
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
  if (options_.agents_test_links) options.features.emplace_back("link_tests");
  process->agent = std::make_unique<agent::Agent>(options, *process->loop, *process->bus, hardware,
                                                  *actuators_[Index(host)], hardware,
                                                  *train_sockets_[Index(host)], agent_metrics_);
  process->agent->Start();
}

void Cluster::KillAgent(int host) { processes_[Index(host)].reset(); }

void Cluster::StartAll() {
  StartController();
  for (int i = 0; i < host_count(); ++i) StartAgent(i);
}

// A second request for a name returns the same counter.
std::int64_t Cluster::ControllerCounter(const std::string& name) const {
  return controller_metrics_.MakeCounter(name, "").Value();
}

std::int64_t Cluster::AgentCounter(const std::string& name) const {
  return agent_metrics_.MakeCounter(name, "").Value();
}

std::vector<std::uint16_t> Cluster::AllPortsOf(const FlowRef& flow) {
  std::vector<std::uint16_t> ports;
  if (!host(flow.host).IsOpen(flow.flow)) return ports;
  for (const sim::SimFlowId part : host(flow.host).FabricFlows(flow.flow)) {
    ports.push_back(fabric_->TupleOf(part).source_port);
  }
  return ports;
}

bool Cluster::StandsStill(const FlowRef& flow) {
  if (!host(flow.host).IsOpen(flow.flow)) return false;
  const auto& parts = host(flow.host).FabricFlows(flow.flow);
  return std::any_of(parts.begin(), parts.end(),
                     [&](sim::SimFlowId part) { return fabric_->ProgressOf(part).stands_still; });
}

bool Cluster::RunUntil(const std::function<bool()>& done, Duration limit) {
  const TimePoint end = world_.Now() + limit;
  while (!done()) {
    if (world_.Now() >= end) return false;
    world_.RunFor(kLookInterval);
  }
  return true;
}

}  // namespace espalier::simulation
