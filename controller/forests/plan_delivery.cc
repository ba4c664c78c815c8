#include "controller/forests/plan_delivery.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "collective/program/program_bytes.h"

namespace espalier::controller {
namespace {

using PeersOfRank = std::map<std::uint32_t, wire::PeerPorts>;

fabric::NodeId NicOf(const JobPlan& plan, std::int32_t rank) {
  return plan.forest->nics[static_cast<std::size_t>(rank)];
}

const IpAddress& AddressOf(const State& state, fabric::NodeId nic) {
  return state.topology.node(nic).addresses.front();
}

const IpAddress& AddressOf(const State& state, const JobPlan& plan, std::size_t rank) {
  return AddressOf(state, plan.forest->nics[rank]);
}

// Whether the edge could have other NICs. If so its plan names them, because a program that runs
// since an earlier plan knows the NICs of that one.
bool HasChoice(const JobPlan& plan, const TreeEdge& edge) {
  const auto has_choice = [&](std::int32_t rank) {
    return plan.forest->has_choice[static_cast<std::size_t>(rank)];
  };
  return edge.leaves_host && (has_choice(edge.from) || has_choice(edge.to));
}

// By rank: the further NICs where its peers connect, beside that of JobForest::nics. Over verbs all
// queue pairs are set up at that one.
std::vector<std::set<fabric::NodeId>> FindFurtherNics(const JobPlan& plan) {
  std::vector<std::set<fabric::NodeId>> nics(plan.forest->nics.size());
  if (plan.verbs) return nics;
  for (const TreeEdge& edge : plan.forest->edges) {
    if (edge.destination_nic == NicOf(plan, edge.to)) continue;
    nics[static_cast<std::size_t>(edge.to)].insert(edge.destination_nic);
  }
  return nics;
}

// Tells the NICs of a connection to a peer, once.
void NameNics(wire::PeerPorts& peer, std::int32_t channel, const IpAddress& own,
              const IpAddress& other) {
  const auto number = static_cast<std::uint32_t>(channel);
  if (std::ranges::find(peer.connections, number, &wire::ConnectionNics::channel) !=
      peer.connections.end()) {
    return;
  }
  peer.connections.push_back({.channel = number, .source = own, .destination = other});
}

// By rank: its peers, with the ports for each.
std::vector<PeersOfRank> FindPeers(const State& state, const JobPlan& plan, std::size_t ranks) {
  std::vector<PeersOfRank> peers(ranks);
  const auto peer_of = [&](std::int32_t rank, std::int32_t peer) -> wire::PeerPorts& {
    const auto number = static_cast<std::uint32_t>(peer);
    wire::PeerPorts& ports = peers[static_cast<std::size_t>(rank)][number];
    ports.rank = number;
    ports.address = AddressOf(state, plan, number);
    ports.destination_port = plan.listen_ports[number];
    return ports;
  };
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    const TreeEdge& edge = plan.edge(i);
    wire::PeerPorts& to = peer_of(edge.from, edge.to);
    wire::PeerPorts& from = peer_of(edge.to, edge.from);
    if (HasChoice(plan, edge)) {
      NameNics(to, edge.channel, AddressOf(state, edge.source_nic),
               AddressOf(state, edge.destination_nic));
      // One connection serves both directions (of which each path has the same channel).
      if (plan.verbs) {
        NameNics(from, edge.channel, AddressOf(state, edge.destination_nic),
                 AddressOf(state, edge.source_nic));
      }
    }
    if (plan.ports[i] == 0) continue;
    to.source_ports.push_back(plan.ports[i]);
    to.channels.push_back(static_cast<std::uint32_t>(edge.channel));
  }
  // All ranks connect to rank 0 for the rendezvous.
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    peer_of(static_cast<std::int32_t>(rank), 0);
  }
  return peers;
}

bool HasAcknowledged(const Agent& agent, const RankOfJob& rank) {
  const auto held = agent.plans.find(rank);
  return held != agent.plans.end() && held->second.generation != 0 &&
         held->second.generation <= agent.acked_generation;
}

}  // namespace

AgentId AgentOfRank(State& state, const TreeJob& job, std::size_t rank) {
  return state.agents.Intern(fabric::HostOf(state.topology.node(job.ranks[rank])));
}

void DeliverPlans(State& state, const TreeJob& job) {
  const JobPlan& plan = *job.active;
  std::vector<wire::RankPlan> plans(job.ranks.size());
  std::vector<PeersOfRank> peers = FindPeers(state, plan, plans.size());
  std::vector<IpAddress> addresses;
  for (std::size_t rank = 0; rank < plans.size(); ++rank)
    addresses.push_back(AddressOf(state, plan, rank));
  const std::string key(job.key.bytes().begin(), job.key.bytes().end());
  const auto further_nics = FindFurtherNics(plan);
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    wire::RankPlan& own = plans[rank];
    own.job = job.spec.name;
    own.rank = static_cast<std::uint32_t>(rank);
    const program::EncodedProgram& program = plan.forest->program;
    const bool is_whole =
        TakesWholePrograms(state, job.ranks[rank]) && program.WholeBytes() <= kMaxProgramBytes;
    own.program = is_whole ? program.Whole() : program.PartOf(rank);
    own.program_version = is_whole ? program::kProgramBytesVersion : program::kProgramPartVersion;
    own.ranks = static_cast<std::uint32_t>(plans.size());
    own.version = plan.version;
    own.address = AddressOf(state, plan, rank);
    own.listen_port = plan.listen_ports[rank];
    own.offload = job.spec.offload;
    own.urgent = plan.replaces_dead;
    own.verbs = plan.verbs;
    own.job_key = key;
    own.rank_addresses = addresses;
    for (const fabric::NodeId nic : further_nics[rank]) {
      own.listen_addresses.push_back(AddressOf(state, nic));
    }
    own.user = job.spec.user;
    for (auto& [number, ports] : peers[rank]) own.peers.push_back(std::move(ports));
    const AgentId agent = AgentOfRank(state, job, rank);
    const RankOfJob number(own.job, own.rank);
    state.agents.At(agent).plans[number] = {std::make_shared<const wire::RankPlan>(std::move(own)),
                                            0};
    state.pushes.MarkRankPlan(agent, number);
  }
}
void EndPlans(State& state, const TreeJob& job) {
  for (std::size_t rank = 0; job.active && rank < job.ranks.size(); ++rank) {
    const AgentId agent = AgentOfRank(state, job, rank);
    const RankOfJob number(job.spec.name, static_cast<std::uint32_t>(rank));
    if (state.agents.At(agent).plans.erase(number) > 0) state.pushes.MarkRankPlan(agent, number);
  }
}

std::vector<std::uint32_t> UnacknowledgedRanks(const State& state, const TreeJob& job) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    const auto id = state.agents.FindByName(fabric::HostOf(state.topology.node(job.ranks[rank])));
    if (!id || !HasAcknowledged(state.agents.At(*id), {job.spec.name, rank})) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace espalier::controller
