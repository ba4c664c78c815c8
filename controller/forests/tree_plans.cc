// Of TreeJobs: from a forest to plans that are in force.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "collective/program/program_bytes.h"
#include "common/base/check.h"
#include "controller/forests/tree_jobs.h"
#include "controller/routing/assignment.h"

namespace espalier::controller {
namespace {

// Versions grow from plan to plan and from controller to controller, and ranks agree on them as
// integers of 64 bits with a sign: there is room for 2^38 epochs, of which an agent can take 2^20 a
// start at most, and for 2^24 plans in each. They begin above those of earlier releases, which were
// 2^32 an epoch, as long as there had been fewer than 2^20 starts.
std::uint64_t PlanVersion(std::uint64_t epoch, std::uint64_t plan) {
  constexpr std::uint64_t kFirst = std::uint64_t{1} << 52U;
  constexpr std::uint64_t kPlanBits = 24;
  return kFirst + (epoch << kPlanBits) + plan;
}

constexpr Duration kPortRest = std::chrono::minutes(2);
constexpr std::uint8_t kMostRefused = 16;  // ports of an edge whose ways back are dead
// The flows of trees have numbers that agents, who count connections and their flows, do not reach.
constexpr std::uint64_t kFirstTreeFlow = std::uint64_t{1} << 63U;

// Whether it passes the switches of the other in reverse.
bool PassesBack(const fabric::Topology& topology, const fabric::Path& there,
                const fabric::Path& back) {
  if (there.hops.size() != back.hops.size()) return false;
  const std::size_t between = there.hops.size() - 1;
  for (std::size_t i = 0; i < between; ++i) {
    if (topology.To(there.hops[i]) != topology.To(back.hops[between - 1 - i])) return false;
  }
  return true;
}

// Of what comes back on a connection from that port.
fabric::PortKey BackOf(const fabric::PortKey& key, std::uint16_t port) {
  return {.source = key.destination,
          .destination = key.source,
          .protocol = key.protocol,
          .destination_port = port,
          .destination_qpn = 0};
}

}  // namespace

fabric::PortKey TreeJobs::KeyOf(const JobPlan& plan, const TreeEdge& edge) const {
  const auto from = static_cast<std::size_t>(edge.from);
  const auto to = static_cast<std::size_t>(edge.to);
  const bool is_tcp = options_.fabric_hashes_protocol && !plan.verbs;
  return {.source = plan.forest->nics[from],
          .destination = plan.forest->nics[to],
          .protocol = is_tcp ? wire::kProtocolTcp : wire::kProtocolUdp,
          .destination_port = plan.DestinationPort(edge),
          .destination_qpn = 0};
}

void TreeJobs::Begin(TreeJob& job, std::shared_ptr<const JobForest> forest, PlanOrigin origin) {
  if (job.next) DropPorts(*job.next);
  job.next.reset();
  job.next = NewPlan(job, std::move(forest), ListenPortsOf(job), origin);
  ChoosePorts(job);
  request_turn_();
}

JobPlan TreeJobs::NewPlan(const TreeJob& job, std::shared_ptr<const JobForest> forest,
                          std::vector<std::uint16_t> listens, PlanOrigin origin) const {
  JobPlan plan{.version = 0,
               .forest = std::move(forest),
               .listens = std::move(listens),
               .ports = {},
               .refused = {},
               .replaces_dead = false,
               .asked_back = {},
               .loses_answers = false,
               .verbs = job.spec.verbs,
               .origin = origin,
               .answers = {},
               .flows = {}};
  if (plan.verbs) plan.answers = AnswersOf(*plan.forest);
  plan.ports.resize(plan.forest->edges.size() + plan.answers.size());
  return plan;
}

std::vector<TreeEdge> TreeJobs::AnswersOf(const JobForest& forest) const {
  const auto key = [](const TreeEdge& edge) {
    return std::tuple(edge.from, edge.to, edge.channel);
  };
  std::set<std::tuple<std::int32_t, std::int32_t, std::int32_t>> known;
  for (const TreeEdge& edge : forest.edges) known.insert(key(edge));
  std::vector<TreeEdge> answers;
  for (const TreeEdge& edge : forest.edges) {
    if (!edge.crossing) continue;
    TreeEdge answer = edge;
    std::swap(answer.from, answer.to);
    answer.chunks = 0;
    if (!known.insert(key(answer)).second) continue;
    std::swap(answer.crossing->source_leaf, answer.crossing->destination_leaf);
    const fabric::Path& there = PathOf(*edge.crossing);
    const auto back =
        state_.paths.Between(answer.crossing->source_leaf, answer.crossing->destination_leaf);
    const auto same = std::find_if(back.begin(), back.end(), [&](const fabric::Path& path) {
      return PassesBack(state_.topology, there, path);
    });
    if (same == back.end()) continue;
    answer.crossing->path = fabric::PathIndex(static_cast<std::int32_t>(same - back.begin()));
    answers.push_back(answer);
  }
  return answers;
}

std::vector<std::uint16_t> TreeJobs::ListenPortsOf(const TreeJob& job) const {
  if (!job.listens.empty()) return job.listens;
  return job.in_force ? job.in_force->listens : ChooseListenPorts(job.spec);
}

// By host, not by NIC: whatever forests a job gets, whatever NICs they use, its ports are its own.
std::vector<std::uint16_t> TreeJobs::ChooseListenPorts(const JobSpec& spec) const {
  std::map<std::string_view, std::set<std::uint16_t>> taken;
  const auto take = [&](const TreeJob& job, const std::vector<std::uint16_t>& ports) {
    for (std::size_t rank = 0; rank < std::min(ports.size(), job.ranks.size()); ++rank) {
      taken[fabric::HostOf(state_.topology.node(job.ranks[rank]))].insert(ports[rank]);
    }
  };
  for (const auto& [name, other] : jobs_) {
    if (name == spec.name) continue;
    take(other, other.listens);
    if (other.in_force) take(other, other.in_force->listens);
    if (other.next) take(other, other.next->listens);
  }
  std::vector<std::uint16_t> ports;
  for (const std::string& rank : spec.ranks) {
    const auto node = state_.topology.FindNode(rank);
    ESPALIER_CHECK(node.has_value());
    std::uint16_t port = wire::kRoceV2Port;
    while (!taken[fabric::HostOf(state_.topology.node(*node))].insert(port).second) ++port;
    ports.push_back(port);
  }
  return ports;
}

void TreeJobs::ChoosePorts(TreeJob& job) {
  JobPlan& plan = *job.next;
  plan.refused.resize(plan.ports.size());
  bool complete = true;
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    if (plan.edge(i).crossing) complete = ChoosePort(plan, i) && complete;
  }
  if (complete) PutInForce(job);
}

// Whether the edge has a port that will do. One whose way back is not known yet is kept meanwhile.
bool TreeJobs::ChoosePort(JobPlan& plan, std::size_t number) {
  const TreeEdge& edge = plan.edge(number);
  const fabric::PortKey key = KeyOf(plan, edge);
  const auto choose = [&] {
    return controller::ChoosePort(state_.path_map, key, edge.crossing->path, state_.ports,
                                  PortNeed::kSure, 0);
  };
  std::uint16_t& port = plan.ports[number];
  const auto known = state_.path_map.Find(key, port);
  const bool leads_elsewhere = known && known->path != edge.crossing->path;
  if (port != 0 && (leads_elsewhere || learner_.HasGivenUp(key, port))) {  // a model was wrong
    state_.ports.Release(key, port);
    port = 0;
  }
  while (true) {
    if (port == 0) {
      auto entry = choose();
      if (!entry && learner_.Want(key, edge.crossing->path)) entry = choose();
      if (!entry) return false;
      port = entry->port;
      state_.ports.Take(key, port);
      if (entry->trust != fabric::PortTrust::kVerified) learner_.Verify(key, port);
    }
    if (plan.verbs) return true;  // what comes back has a port of its own
    // Where so many have failed, what comes back does not depend on the port.
    if (plan.refused[number] >= kMostRefused) return true;
    const WayBack back = WayBackOf(edge, key, port);
    if (back != WayBack::kDead) return back == WayBack::kAlive;
    old_ports_.push_back({loop_.Now() + kPortRest, key, port});
    ++plan.refused[number];
    port = 0;
  }
}

TreeJobs::WayBack TreeJobs::WayBackOf(const TreeEdge& edge, const fabric::PortKey& key,
                                      std::uint16_t port) {
  const auto paths =
      state_.paths.Between(edge.crossing->destination_leaf, edge.crossing->source_leaf);
  const auto is_alive = [&](const fabric::Path& path) {
    return fabric::IsAlive(state_.topology, path);
  };
  const bool is_probed = key.protocol == wire::kProtocolUdp;
  if (!is_probed || std::all_of(paths.begin(), paths.end(), is_alive)) return WayBack::kAlive;
  const fabric::PortKey back = BackOf(key, port);
  const auto seen = state_.path_map.Find(back, key.destination_port);
  // A switch that has no way on may not answer.
  if (!seen || seen->trust == fabric::PortTrust::kReverify) {
    return learner_.VerifyOnce(back, key.destination_port) ? WayBack::kUnknown : WayBack::kDead;
  }
  return is_alive(paths[seen->path.Index()]) ? WayBack::kAlive : WayBack::kDead;
}

// What was known before the link died is asked for again, once.
TreeJobs::WayBack TreeJobs::WayBackInForce(JobPlan& plan, std::size_t number) {
  const TreeEdge& edge = plan.edge(number);
  const fabric::PortKey key = KeyOf(plan, edge);
  if (!plan.asked_back[number]) {
    const fabric::PortKey back = BackOf(key, plan.ports[number]);
    const auto seen = state_.path_map.Find(back, key.destination_port);
    plan.asked_back[number] = true;
    if (seen && seen->trust == fabric::PortTrust::kReverify) {
      learner_.Verify(back, key.destination_port);
    }
  }
  return WayBackOf(edge, key, plan.ports[number]);
}

bool TreeJobs::LookBack(TreeJob& job) {
  JobPlan& plan = *job.in_force;
  bool asks = false;
  for (std::size_t i = 0; i < plan.ports.size() && !plan.loses_answers; ++i) {
    if (plan.ports[i] == 0) continue;
    const WayBack back = WayBackInForce(plan, i);
    asks = asks || back == WayBack::kUnknown;
    plan.loses_answers = back == WayBack::kDead;
  }
  if (!plan.loses_answers) {
    if (!asks) plan.asked_back.clear();
    return asks;
  }
  plan.asked_back.clear();
  if (job.next || job.planning) return true;  // comes with other ports
  state_.history.RecordOf("jobs", loop_.Now(), "job_answers_lost",
                          fmt::format("job={}", job.spec.name));
  job.next = NewPlan(job, plan.forest, plan.listens, plan.origin);
  ChoosePorts(job);
  return true;
}

void TreeJobs::PutInForce(TreeJob& job) {
  job.next->replaces_dead =
      job.in_force && (job.in_force->loses_answers || !IsAlive(*job.in_force));
  TakeOutOfForce(job);
  job.in_force = std::move(job.next);
  job.next.reset();
  job.in_force->version = PlanVersion(state_.epoch, ++plans_made_);
  OpenFlows(job);
  PushPlans(job);
  ready_.SetElements(job.spec.name, LoadsOf(*job.in_force));
  if (job.broken_since && IsUsable(*job.in_force)) {
    repair_seconds_.ObserveSeconds(SecondsOf(loop_.Now() - *job.broken_since));
    job.broken_since.reset();
  }
  state_.history.RecordOf(
      "jobs", loop_.Now(), "job_planned",
      fmt::format("job={} plan={} origin={} edges={} crossing={} algbw_gbps={:.6g}", job.spec.name,
                  job.in_force->version, PlanOriginName(job.in_force->origin),
                  job.in_force->forest->edges.size(), job.in_force->flows.size(),
                  job.in_force->forest->algbw_gbps));
  request_turn_();
}

void TreeJobs::OpenFlows(TreeJob& job) {
  JobPlan& plan = *job.in_force;
  for (std::size_t i = 0; i < plan.forest->edges.size(); ++i) {
    const TreeEdge& edge = plan.forest->edges[i];
    if (!edge.crossing) continue;
    Flow flow;
    flow.agent = AgentOfRank(job, static_cast<std::size_t>(edge.from));
    flow.local = wire::LocalFlowId(kFirstTreeFlow + flows_made_++);
    flow.job = state_.flows.JobIndex(job.spec.name, flow.agent);
    flow.key = KeyOf(plan, edge);
    flow.source_address = state_.topology.node(flow.key.source).addresses.front();
    flow.destination_address = state_.topology.node(flow.key.destination).addresses.front();
    flow.own_port = plan.ports[i];
    flow.protocol = plan.verbs ? wire::kProtocolUdp : wire::kProtocolTcp;
    flow.movable = false;
    flow.origin = plan.origin;
    flow.started = loop_.Now();
    flow.status = FlowStatus::kRouted;
    flow.source_leaf = edge.crossing->source_leaf;
    flow.destination_leaf = edge.crossing->destination_leaf;
    const double units = edge.crossing->rate_gbps * 1e9 /
                         static_cast<double>(state_.view.unit_bps()) *
                         static_cast<double>(kLoadUnit);
    flow.tree_load = std::max<std::int64_t>(1, std::llround(units));
    const auto way = state_.live.Add(*state_.view.LeafOf(flow.source_leaf),
                                     *state_.view.LeafOf(flow.destination_leaf), flow.tree_load);
    state_.live.Pin(way, true);
    state_.live.Place(way, edge.crossing->path.value());
    flow.ways = {{.way = way, .port = plan.ports[i], .port_path = edge.crossing->path}};
    const FlowSlot slot = state_.flows.Open(std::move(flow));
    if (state_.owners.size() <= way) state_.owners.resize(std::size_t{way} + 1);
    state_.owners[way] = {slot, 0};
    state_.NotePath(way, kNoPath, edge.crossing->path.value());
    plan.flows.push_back(slot);
  }
}

void TreeJobs::TakeOutOfForce(TreeJob& job) {
  if (!job.in_force) return;
  for (const FlowSlot slot : job.in_force->flows) {
    const LivePaths::Way way = *state_.flows.At(slot).ways[0].way;
    state_.NotePath(way, state_.live.PathOf(way), kNoPath);
    state_.live.Remove(way);
    state_.flows.Close(slot);
  }
  DropPorts(*job.in_force);
  job.in_force.reset();
}

void TreeJobs::DropPorts(const JobPlan& plan) {
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    if (plan.ports[i] == 0) continue;
    const fabric::PortKey key = KeyOf(plan, plan.edge(i));
    if (plan.version == 0) {  // nobody has heard of it
      state_.ports.Release(key, plan.ports[i]);
    } else {
      old_ports_.push_back({loop_.Now() + kPortRest, key, plan.ports[i]});
    }
  }
}

void TreeJobs::ReleasePorts(TimePoint now) {
  while (!old_ports_.empty() && old_ports_.front().free_at <= now) {
    state_.ports.Release(old_ports_.front().key, old_ports_.front().port);
    old_ports_.pop_front();
  }
}

void TreeJobs::PushPlans(TreeJob& job) {
  const JobPlan& plan = *job.in_force;
  const auto address_of = [&](std::size_t rank) {
    return state_.topology.node(plan.forest->nics[rank]).addresses.front();
  };
  std::vector<wire::RankPlan> plans(job.ranks.size());
  std::vector<std::map<std::uint32_t, wire::PeerPorts>> peers(job.ranks.size());
  const auto peer_of = [&](std::int32_t rank, std::int32_t peer) -> wire::PeerPorts& {
    const auto number = static_cast<std::uint32_t>(peer);
    wire::PeerPorts& ports = peers[static_cast<std::size_t>(rank)][number];
    ports.rank = number;
    ports.address = address_of(number);
    ports.destination_port = plan.listens[number];
    return ports;
  };
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    const TreeEdge& edge = plan.edge(i);
    wire::PeerPorts& to = peer_of(edge.from, edge.to);
    peer_of(edge.to, edge.from);
    if (plan.ports[i] == 0) continue;
    to.source_ports.push_back(plan.ports[i]);
    to.channels.push_back(static_cast<std::uint32_t>(edge.channel));
  }
  // All ranks meet at the first.
  for (std::size_t rank = 1; rank < plans.size(); ++rank) {
    peer_of(static_cast<std::int32_t>(rank), 0);
  }
  std::vector<IpAddress> addresses;
  for (std::size_t rank = 0; rank < plans.size(); ++rank) addresses.push_back(address_of(rank));
  const std::string key(job.key.bytes().begin(), job.key.bytes().end());
  const std::string program = program::EncodeProgram(plan.forest->program);
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    wire::RankPlan& own = plans[rank];
    own.job = job.spec.name;
    own.rank = static_cast<std::uint32_t>(rank);
    own.program = program;
    own.program_version = program::kProgramBytesVersion;
    own.ranks = static_cast<std::uint32_t>(plans.size());
    own.version = plan.version;
    own.address = address_of(rank);
    own.listen_port = plan.listens[rank];
    own.offload = job.spec.offload;
    own.urgent = plan.replaces_dead;
    own.verbs = plan.verbs;
    own.job_key = key;
    own.rank_addresses = addresses;
    own.user = job.spec.user;
    for (auto& [number, ports] : peers[rank]) own.peers.push_back(std::move(ports));
    state_.agents.SetPlan(AgentOfRank(job, rank), std::move(own));
  }
}

void TreeJobs::End(TreeJob& job) {
  ready_.Forget(job.spec.name);
  if (job.planning) job.planning->store(true);
  if (job.next) DropPorts(*job.next);
  for (std::size_t rank = 0; job.in_force && rank < job.ranks.size(); ++rank) {
    state_.agents.EndPlan(AgentOfRank(job, rank),
                          {job.spec.name, static_cast<std::uint32_t>(rank)});
  }
  TakeOutOfForce(job);
  request_turn_();
}

bool TreeJobs::LeadsElsewhere(const JobPlan& plan) const {
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    if (plan.ports[i] == 0) continue;
    const TreeEdge& edge = plan.edge(i);
    const auto entry = state_.path_map.Find(KeyOf(plan, edge), plan.ports[i]);
    if (entry && entry->path != edge.crossing->path) return true;
    if (learner_.HasGivenUp(KeyOf(plan, edge), plan.ports[i])) return true;
  }
  return false;
}

}  // namespace espalier::controller
