#include "controller/forests/job_forest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "collective/forest/planner/planner.h"
#include "collective/program/verifier/verifier.h"

namespace espalier::controller {
namespace {

using algorithms::ConnectionPath;
using fabric::NodeId;

constexpr int kSlots = 2;  // FIFO slots that every interpreter has
constexpr std::int64_t kMaxTrees =
    8;  // for each rank: more would make the pieces of data too small

// The part of a route between two leaves: where it enters the fabric and where it leaves it.
struct Leg {
  NodeId source;       // NIC
  NodeId destination;  // NIC
  std::vector<NodeId> switches;
};

bool IsFabricSwitch(const fabric::Topology& topology, NodeId id) {
  const fabric::Node& node = topology.node(id);
  return node.kind == fabric::NodeKind::kSwitch && node.host.empty();
}

std::optional<Leg> FindLeg(const fabric::Topology& topology, const std::vector<NodeId>& nodes) {
  const auto is_switch = [&](NodeId id) { return IsFabricSwitch(topology, id); };
  const auto first = std::find_if(nodes.begin(), nodes.end(), is_switch);
  if (first == nodes.end() || first == nodes.begin()) return std::nullopt;
  const auto last = std::find_if(nodes.rbegin(), nodes.rend(), is_switch).base();
  if (last == nodes.end()) return std::nullopt;
  return Leg{*(first - 1), *last, {first, last}};
}

bool Passes(const fabric::Topology& topology, const fabric::Path& path,
            const std::vector<NodeId>& switches) {
  if (path.hops.size() + 1 != switches.size()) return false;
  for (std::size_t i = 0; i < path.hops.size(); ++i) {
    if (topology.To(path.hops[i]) != switches[i + 1]) return false;
  }
  return true;
}

class Builder {
 public:
  Builder(const ForestRequest& request, bool ecmp_only)
      : request_(request), topology_(*request.topology), ecmp_only_(ecmp_only), paths_(topology_) {}

  Result<JobForest> Build(const forest::Control& control) {
    auto made = MakeTreeSchedule(control);
    if (!made) return Propagate(made);
    auto program = algorithms::MakeForestProgram(request_.name, made->schedule, kSlots);
    if (!program) return Propagate(program);
    const program::Verdict verdict = program::Verify(program->program, {.fifo_slots = kSlots});
    if (verdict.violation) {
      const bool is_too_large = verdict.violation->kind == program::ViolationKind::kTooLarge;
      return Fail(is_too_large ? ErrorCode::kResourceExhausted : ErrorCode::kInternal,
                  verdict.violation->message);
    }
    forest_.trees = made->schedule.trees_per_weight;
    forest_.algbw_gbps = made->schedule.AlgorithmGbps(made->schedule.inverse_rate).ToDouble();
    forest_.bound_gbps = made->schedule.AlgorithmGbps(made->schedule.bound_inverse_rate).ToDouble();
    forest_.program = program::EncodedProgram(program->program);
    if (auto fits = CheckSize(); !fits) return Propagate(fits);
    forest_.chunks = program->program.collective.chunks;
    forest_.tree_classes = std::move(program->trees);
    if (auto added = AddEdges(program->program, program->paths); !added) return Propagate(added);
    if (auto found = FindNics(); !found) return Propagate(found);
    return std::move(forest_);
  }

  // Whether some rank of the built forest uses several NICs.
  bool needs_several_nics() const {
    return std::ranges::any_of(nics_, [](const auto& rank) { return rank.second.size() > 1; });
  }

 private:
  Result<forest::VerifiedSchedule> MakeTreeSchedule(const forest::Control& control) {
    forest::ScheduleOptions options{.collective = request_.collective, .ecmp_only = ecmp_only_};
    options.problem.ranks = request_.ranks;
    options.problem.available = request_.available;
    options.max_trees_per_weight = kMaxTrees;
    if (request_.collective == forest::Collective::kBroadcast ||
        request_.collective == forest::Collective::kReduce) {
      options.root = request_.ranks.front();
    }
    auto made = forest::MakeTreeSchedule(topology_, options, control);
    if (made || made.error().code == ErrorCode::kUnavailable) return made;
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("no forest can be built for these ranks: {}", made.error().message));
  }

  Result<void> CheckSize() const {
    std::size_t bytes = forest_.program.WholeBytes();
    if (!request_.whole_program) {
      bytes = 0;
      for (std::size_t rank = 0; rank < forest_.program.ranks(); ++rank) {
        bytes = std::max(bytes, forest_.program.PartOf(rank).size());
      }
    }
    if (bytes <= kMaxProgramBytes) return {};
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the program of this forest has {} bytes{}, more than the {} that fit "
                            "a message ({}start the job with fewer ranks)",
                            bytes, request_.whole_program ? "" : " for one rank", kMaxProgramBytes,
                            request_.whole_program
                                ? "upgrade the agents of an older release that take whole programs "
                                  "only, or "
                                : ""));
  }

  Result<void> AddEdges(const program::Program& program,
                        const std::vector<ConnectionPath>& connections) {
    std::map<std::tuple<int, int, int>, std::int64_t> chunks;
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      for (const program::ThreadBlock& block : program.ranks[rank].blocks) {
        for (const program::Step& step : block.steps) {
          if (!program::Sends(step.op)) continue;
          chunks[{static_cast<int>(rank), block.send_peer, block.channel}] += step.count;
        }
      }
    }
    for (const ConnectionPath& connection : connections) {
      TreeEdge& edge = forest_.edges.emplace_back();
      edge.from = connection.from;
      edge.to = connection.to;
      edge.channel = connection.channel;
      edge.chunks = chunks[{edge.from, edge.to, edge.channel}];
      if (auto found = FindCrossing(connection, edge); !found) return found;
    }
    return {};
  }

  Result<void> FindCrossing(const ConnectionPath& connection, TreeEdge& edge) {
    const auto leg = FindLeg(topology_, connection.nodes);
    if (!leg) return {};
    edge.leaves_host = true;
    edge.source_nic = leg->source;
    edge.destination_nic = leg->destination;
    for (const auto& [rank, nic] :
         {std::pair(edge.from, leg->source), std::pair(edge.to, leg->destination)}) {
      std::set<NodeId>& used = nics_[rank];
      used.insert(nic);
      if (topology_.node(nic).addresses.empty()) {
        return Fail(ErrorCode::kFailedPrecondition,
                    fmt::format("NIC {} of rank {} has no address in the topology",
                                topology_.node(nic).id, rank));
      }
      if (used.size() == 1 || !request_.one_nic) continue;
      return Fail(ErrorCode::kFailedPrecondition,
                  fmt::format("rank {} would need two NICs, {} and {} (it can use one)", rank,
                              topology_.node(*used.begin()).id, topology_.node(*used.rbegin()).id));
    }
    if (leg->switches.size() < 2) return {};
    const auto between = paths_.Between(leg->switches.front(), leg->switches.back());
    // Parallel links give several paths through these switches: take the least loaded one.
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < between.size(); ++i) {
      if (!Passes(topology_, between[i], leg->switches)) continue;
      if (!fabric::IsUsable(topology_, between[i])) continue;
      if (!best || ChunksOn(between[i]) < ChunksOn(between[*best])) best = i;
    }
    if (!best) {
      return Fail(
          ErrorCode::kFailedPrecondition,
          fmt::format("the edge from rank {} to rank {} takes a path that ECMP does not use",
                      edge.from, edge.to));
    }
    for (const fabric::DirectedLink hop : between[*best].hops)
      chunks_on_[hop.Index()] += edge.chunks;
    edge.crossing = TreeEdge::Crossing{leg->switches.front(), leg->switches.back(),
                                       fabric::PathIndex(static_cast<std::int32_t>(*best)),
                                       forest_.algbw_gbps * static_cast<double>(edge.chunks) /
                                           static_cast<double>(forest_.chunks)};
    return {};
  }

  std::int64_t ChunksOn(const fabric::Path& path) const {
    std::int64_t most = 0;
    for (const fabric::DirectedLink hop : path.hops) {
      const auto found = chunks_on_.find(hop.Index());
      if (found != chunks_on_.end()) most = std::max(most, found->second);
    }
    return most;
  }

  // Gives ranks whose edges never leave their host any NIC with an address, and edges within a host
  // those of their ranks.
  Result<void> FindNics() {
    const auto nics_of_host = CountNics();
    for (std::size_t rank = 0; rank < request_.ranks.size(); ++rank) {
      NodeId nic = request_.ranks[rank];
      const std::string& host = topology_.node(nic).host;
      const auto count = nics_of_host.find(host);
      forest_.has_choice.push_back(count != nics_of_host.end() && count->second > 1);
      if (const auto known = nics_.find(static_cast<int>(rank)); known != nics_.end()) {
        nic = *known->second.begin();
      } else if (topology_.node(nic).addresses.empty()) {
        nic = FindNicOfHost(host).value_or(nic);
      }
      if (topology_.node(nic).addresses.empty()) {
        return Fail(ErrorCode::kFailedPrecondition,
                    fmt::format("rank {} ({}) has no address in the topology", rank,
                                topology_.node(request_.ranks[rank]).id));
      }
      forest_.nics.push_back(nic);
    }
    for (TreeEdge& edge : forest_.edges) {
      if (edge.leaves_host) continue;
      edge.source_nic = forest_.nics[static_cast<std::size_t>(edge.from)];
      edge.destination_nic = forest_.nics[static_cast<std::size_t>(edge.to)];
    }
    return {};
  }

  // By host: how many nodes with an address it has.
  std::map<std::string_view, int> CountNics() const {
    std::map<std::string_view, int> counts;
    for (const fabric::Node& node : topology_.nodes()) {
      if (!node.host.empty() && !node.addresses.empty()) ++counts[node.host];
    }
    return counts;
  }

  std::optional<NodeId> FindNicOfHost(const std::string& host) const {
    for (std::size_t i = 0; i < topology_.nodes().size(); ++i) {
      const NodeId id(static_cast<std::int32_t>(i));
      const fabric::Node& node = topology_.node(id);
      if (node.host == host && !host.empty() && !node.addresses.empty()) return id;
    }
    return std::nullopt;
  }

  const ForestRequest& request_;
  const fabric::Topology& topology_;
  bool ecmp_only_;
  fabric::PathTable paths_;
  JobForest forest_;
  std::map<int, std::set<NodeId>> nics_;  // by rank: those of its edges that leave the host
  std::map<std::size_t, std::int64_t> chunks_on_;
};

}  // namespace

Result<JobForest> BuildJobForest(const ForestRequest& request, const forest::Control& control) {
  Builder builder(request, /*ecmp_only=*/false);
  auto best = builder.Build(control);
  const bool needs_several = best && builder.needs_several_nics();
  const bool is_best = best && best->algbw_gbps >= best->bound_gbps && !needs_several;
  if (is_best || (!best && best.error().code != ErrorCode::kFailedPrecondition)) return best;
  auto other = Builder(request, /*ecmp_only=*/true).Build(control);
  const bool is_cancelled = !other && other.error().code == ErrorCode::kUnavailable;
  if (!best || is_cancelled) return other;
  if (!other || other->algbw_gbps < best->algbw_gbps) return best;
  // Among equally fast forests the one with fewer NICs: fewer of their links can fail it.
  return other->algbw_gbps > best->algbw_gbps || needs_several ? std::move(other) : std::move(best);
}

}  // namespace espalier::controller
