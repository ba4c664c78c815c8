#include "tests/scenarios/sim_cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"

namespace espalier::scenarios {
namespace {

simulation::ClusterOptions OptionsFor(const ClusterOptions& options) {
  SetLogLevel(LogLevel::kError);
  simulation::ClusterOptions made;
  made.agents_test_links = options.agents_test_links;
  made.fabric = fabric::BuildLeafSpine(options.shape).value();
  std::uint64_t seed = 1000 * options.seed;
  for (fabric::Node& node : made.fabric.nodes) {
    const bool is_switch = node.kind == fabric::NodeKind::kSwitch;
    if (is_switch || node.uplink == fabric::UplinkChoice::kHash) node.ecmp = {options.hash, ++seed};
  }
  made.controller_knows_hashes = options.controller_knows_hash;
  made.seed = options.seed;
  made.faults = options.faults;
  made.controller = options.controller;
  made.controller.link_tests.seed = options.seed;
  return made;
}

}  // namespace

SimCluster::SimCluster(const ClusterOptions& options)
    : Cluster(OptionsFor(options)), hosts_per_leaf_(options.shape.hosts_per_leaf) {}

Result<controller::ActionOutcome> SimCluster::ChangeLink(
    const std::string& link, controller::IntentAction action,
    const controller::OperatorRequest& request) {
  std::optional<Result<controller::ActionOutcome>> outcome;
  controller().actions().ChangeLink(
      link, action, request,
      [&](const Result<controller::ActionOutcome>& done) { outcome = done; });
  RunUntil([&] { return outcome.has_value(); }, std::chrono::seconds(1));
  ESPALIER_CHECK(outcome.has_value(), "link={}", link);
  return *outcome;
}

std::vector<SimCluster::FlowRef> SimCluster::StartPermutation(int shift, std::uint64_t bytes,
                                                              std::uint8_t paths) {
  std::vector<FlowRef> flows;
  for (int i = 0; i < host_count(); ++i) {
    const int to = (i + shift * hosts_per_leaf_) % host_count();
    const auto flow = host(i).Open(
        {.destination = host(to).address(), .bytes = bytes, .job = "j", .paths = paths});
    flows.push_back({i, flow});
  }
  return flows;
}

std::uint16_t SimCluster::PortOf(const FlowRef& flow) {
  const std::vector<std::uint16_t> ports = AllPortsOf(flow);
  return ports.empty() ? std::uint16_t{0} : ports.front();
}

std::vector<std::uint16_t> SimCluster::PortsOf(const std::vector<FlowRef>& flows) {
  std::vector<std::uint16_t> ports;
  for (const FlowRef& flow : flows) ports.push_back(PortOf(flow));
  return ports;
}

int SimCluster::MaxLinkFlows() {
  const std::vector<int> flows = fabric().LinkFlows();
  return *std::max_element(flows.begin(), flows.end());
}

bool SimCluster::AllRouted(const std::vector<FlowRef>& flows) {
  if (!has_controller()) return false;
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

}  // namespace espalier::scenarios
