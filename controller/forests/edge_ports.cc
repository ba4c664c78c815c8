#include "controller/forests/edge_ports.h"

#include <algorithm>

#include "controller/paths/models/return_key.h"
#include "controller/paths/port_chooser.h"

namespace espalier::controller {
namespace {

constexpr Duration kPortRest = std::chrono::minutes(2);
constexpr std::size_t kEdgesAtOnce = 128;
constexpr std::uint8_t kMaxRejectedPorts = 16;  // ports of an edge that dead return paths may cost

}  // namespace

fabric::PortKey EdgePorts::KeyOf(const JobPlan& plan, const TreeEdge& edge) const {
  const std::uint8_t protocol = plan.verbs ? wire::kProtocolUdp : wire::kProtocolTcp;
  return {.source = edge.source_nic,
          .destination = edge.destination_nic,
          .protocol = HashedProtocol(state_.paths, edge.source_nic, protocol,
                                     options_.fabric_hashes_protocol),
          .destination_port = plan.DestinationPort(edge),
          .destination_qpn = 0};
}

// Probes answer one by one, and each answer leads here, so looking at all edges each time costs
// their square. Idea: look at some of the edges without a suitable port, in turns. When none is
// left, look at all once more, as later answers may have made a port unsuitable. Cost: a look is at
// most kEdgesAtOnce edges, but for few looks.
bool EdgePorts::Choose(JobPlan& plan) {
  plan.rejected_ports.resize(plan.ports.size());
  if (plan.open_edges.size() > kEdgesAtOnce) {
    for (std::size_t i = 0; i < kEdgesAtOnce; ++i) {
      const std::size_t edge = plan.open_edges.front();
      plan.open_edges.pop_front();
      if (!ChoosePort(plan, edge)) plan.open_edges.push_back(edge);
    }
    return false;
  }
  std::erase_if(plan.open_edges, [&](std::size_t edge) { return ChoosePort(plan, edge); });
  if (!plan.open_edges.empty()) return false;
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    if (plan.edge(i).crossing && !ChoosePort(plan, i)) plan.open_edges.push_back(i);
  }
  return plan.open_edges.empty();
}

// Returns whether the edge has a suitable port. A port whose return path is not known yet is kept,
// and false is returned. Ports with a dead return path are given up, at most kMaxRejectedPorts of
// an edge.
bool EdgePorts::ChoosePort(JobPlan& plan, std::size_t number) {
  const TreeEdge& edge = plan.edge(number);
  const fabric::PortKey key = KeyOf(plan, edge);
  const auto choose = [&] {
    return controller::ChoosePort(state_.path_map, key, edge.crossing->path,
                                  state_.flow_paths.ports(), PortNeed::kSure, 0);
  };
  std::uint16_t& port = plan.ports[number];
  const auto known = state_.path_map.Find(key, port);
  const bool leads_elsewhere = known && known->path != edge.crossing->path;
  if (port != 0 &&
      (leads_elsewhere || learner_.IsQuarantined(key, port))) {  // the prediction was wrong
    state_.flow_paths.ReleasePort(key, port);
    port = 0;
  }
  while (true) {
    if (port == 0) {
      auto entry = choose();
      if (!entry && learner_.RequestPort(key, edge.crossing->path)) entry = choose();
      if (!entry) return false;
      port = entry->port;
      state_.flow_paths.TakePort(key, port);
      if (entry->trust != fabric::PortTrust::kVerified) learner_.Verify(key, port);
    }
    if (plan.verbs) return true;  // acknowledgements have their own edges and ports
    // After so many dead return paths, the return path evidently does not depend on the port.
    if (plan.rejected_ports[number] >= kMaxRejectedPorts) return true;
    const ReturnPath back = ReturnPathOf(edge, key, port);
    if (back != ReturnPath::kDead) return back == ReturnPath::kAlive;
    old_ports_.push_back({loop_.Now() + kPortRest, key, port});
    ++plan.rejected_ports[number];
    port = 0;
  }
}

EdgePorts::ReturnPath EdgePorts::ReturnPathOf(const TreeEdge& edge, const fabric::PortKey& key,
                                              std::uint16_t port) {
  const auto paths =
      state_.paths.Between(edge.crossing->destination_leaf, edge.crossing->source_leaf);
  const auto is_alive = [&](const fabric::Path& path) {
    return fabric::IsAlive(state_.topology, path);
  };
  if (!learner_.CanProbe(key) || std::all_of(paths.begin(), paths.end(), is_alive))
    return ReturnPath::kAlive;
  const fabric::PortKey back = ReturnKeyOf(key, port);
  const auto seen = state_.path_map.Find(back, key.destination_port);
  // A return path that cannot be verified is dead: a switch without a next hop may not answer.
  if (!seen || seen->trust == fabric::PortTrust::kReverify) {
    return learner_.VerifyOnce(back, key.destination_port) ? ReturnPath::kUnknown
                                                           : ReturnPath::kDead;
  }
  return is_alive(paths[seen->path.Index()]) ? ReturnPath::kAlive : ReturnPath::kDead;
}

// Verifies again, once, a return path that was known before the link died.
EdgePorts::ReturnPath EdgePorts::ActiveReturnPath(JobPlan& plan, std::size_t number) {
  const TreeEdge& edge = plan.edge(number);
  const fabric::PortKey key = KeyOf(plan, edge);
  if (!plan.return_path_probed[number]) {
    const fabric::PortKey back = ReturnKeyOf(key, plan.ports[number]);
    const auto seen = state_.path_map.Find(back, key.destination_port);
    plan.return_path_probed[number] = true;
    if (seen && seen->trust == fabric::PortTrust::kReverify) {
      learner_.Verify(back, key.destination_port);
    }
  }
  return ReturnPathOf(edge, key, plan.ports[number]);
}

bool EdgePorts::CheckReturnPaths(JobPlan& plan) {
  bool asks = false;
  for (std::size_t i = 0; i < plan.ports.size() && !plan.return_path_dead; ++i) {
    if (plan.ports[i] == 0) continue;
    const ReturnPath back = ActiveReturnPath(plan, i);
    asks = asks || back == ReturnPath::kUnknown;
    plan.return_path_dead = back == ReturnPath::kDead;
  }
  if (plan.return_path_dead || !asks) plan.return_path_probed.clear();
  return asks && !plan.return_path_dead;
}

void EdgePorts::Drop(const JobPlan& plan) {
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    if (plan.ports[i] == 0) continue;
    const fabric::PortKey key = KeyOf(plan, plan.edge(i));
    if (plan.version == 0) {  // the plan never came into force
      state_.flow_paths.ReleasePort(key, plan.ports[i]);
    } else {
      old_ports_.push_back({loop_.Now() + kPortRest, key, plan.ports[i]});
    }
  }
}

void EdgePorts::ReleaseRested(TimePoint now) {
  while (!old_ports_.empty() && old_ports_.front().free_at <= now) {
    state_.flow_paths.ReleasePort(old_ports_.front().key, old_ports_.front().port);
    old_ports_.pop_front();
  }
}

bool EdgePorts::LeadsElsewhere(const JobPlan& plan) const {
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    if (plan.ports[i] == 0) continue;
    const TreeEdge& edge = plan.edge(i);
    const auto entry = state_.path_map.Find(KeyOf(plan, edge), plan.ports[i]);
    if (entry && entry->path != edge.crossing->path) return true;
    if (learner_.IsQuarantined(KeyOf(plan, edge), plan.ports[i])) return true;
  }
  return false;
}

}  // namespace espalier::controller
