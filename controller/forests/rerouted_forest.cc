#include "controller/forests/rerouted_forest.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace espalier::controller {
namespace {

using fabric::DirectedLink;
using fabric::NodeId;

// Whether each rank uses one NIC for all edges that leave its host.
bool UsesOneNicPerRank(const JobForest& forest) {
  std::vector<std::optional<NodeId>> used(forest.nics.size());
  const auto is_only = [&](std::int32_t rank, NodeId nic) {
    std::optional<NodeId>& first = used[static_cast<std::size_t>(rank)];
    if (!first) first = nic;
    return *first == nic;
  };
  return std::ranges::all_of(forest.edges, [&](const TreeEdge& edge) {
    return !edge.leaves_host ||
           (is_only(edge.from, edge.source_nic) && is_only(edge.to, edge.destination_nic));
  });
}

bool MeetsNeeds(const JobForest& forest, const ForestRequest& request) {
  if (request.whole_program && forest.program->WholeBytes() > kMaxProgramBytes) return false;
  return !request.one_nic || UsesOneNicPerRank(forest);
}

// The chunks on directed links in one run, for each phase. Times are chunks over Gbit/s.
class Loads {
 public:
  Loads(const fabric::Topology& topology, std::span<const BitsPerSecond> available)
      : topology_(topology), available_(available), chunks_(2 * topology.links().size()) {}

  void Add(DirectedLink hop, const TreeEdge& edge) {
    auto& [up, down] = chunks_[hop.Index()];
    up += edge.chunks_up;
    down += edge.chunks - edge.chunks_up;
  }
  // The time of the slower phase on the slowest link of a path, if this edge takes the path, too.
  double TimeWith(const fabric::Path& path, const TreeEdge& edge) const {
    double longest = 0;
    for (const DirectedLink hop : path.hops) {
      const auto& [up, down] = chunks_[hop.Index()];
      const std::int64_t most = std::max(up + edge.chunks_up, down + edge.chunks - edge.chunks_up);
      longest = std::max(longest, static_cast<double>(most) / GbpsOf(hop.Index()));
    }
    return longest;
  }
  // The time of both phases, one after the other.
  double Time() const {
    std::array<double, 2> longest = {};
    for (std::size_t link = 0; link < chunks_.size(); ++link) {
      for (std::size_t phase = 0; phase < longest.size(); ++phase) {
        if (chunks_[link][phase] == 0) continue;
        const double time = static_cast<double>(chunks_[link][phase]) / GbpsOf(link);
        longest[phase] = std::max(longest[phase], time);
      }
    }
    return longest[0] + longest[1];
  }

 private:
  double GbpsOf(std::size_t directed_link) const {
    const BitsPerSecond rate =
        available_.empty() ? topology_.link(DirectedLink::FromIndex(directed_link).link).rate
                           : available_[directed_link];
    return static_cast<double>(rate.value) / 1e9;
  }

  const fabric::Topology& topology_;
  std::span<const BitsPerSecond> available_;
  std::vector<std::array<std::int64_t, 2>> chunks_;
};

class Rerouting {
 public:
  Rerouting(const ForestRequest& request, const fabric::PathTable& paths)
      : topology_(*request.topology),
        paths_(paths),
        forest_(*request.previous),
        loads_(topology_, request.available) {}

  std::optional<JobForest> Run() {
    std::vector<TreeEdge*> lost;
    for (TreeEdge& edge : forest_.edges) {
      if (!edge.leaves_host) continue;
      if (!HasUplinks(edge)) return std::nullopt;
      AddHostLinks(edge);
      if (!edge.crossing) continue;
      const fabric::Path& path = PathsOf(edge)[edge.crossing->path.Index()];
      if (fabric::IsUsable(topology_, path)) {
        AddPath(path, edge);
      } else {
        lost.push_back(&edge);
      }
    }
    for (TreeEdge* edge : lost) {
      if (!Move(*edge)) return std::nullopt;
    }
    SetRates();
    return std::move(forest_);
  }

 private:
  std::span<const fabric::Path> PathsOf(const TreeEdge& edge) const {
    return paths_.Between(edge.crossing->source_leaf, edge.crossing->destination_leaf);
  }

  // Links to ranks without another NIC do not count: no other forest could avoid them.
  bool HasUplinks(const TreeEdge& edge) const {
    const std::pair<std::int32_t, NodeId> ends[] = {{edge.from, edge.source_nic},
                                                    {edge.to, edge.destination_nic}};
    return std::ranges::all_of(ends, [&](const auto& end) {
      if (!forest_.has_choice[static_cast<std::size_t>(end.first)]) return true;
      const auto attachment = paths_.FindAttachment(end.second);
      return !attachment || !attachment->uplink ||
             topology_.link(attachment->uplink->link).state == fabric::LinkState::kUp;
    });
  }

  void AddHostLinks(const TreeEdge& edge) {
    const auto source = paths_.FindAttachment(edge.source_nic);
    const auto destination = paths_.FindAttachment(edge.destination_nic);
    if (source && source->uplink) loads_.Add(*source->uplink, edge);
    if (destination && destination->uplink) loads_.Add(*destination->Downlink(), edge);
  }

  void AddPath(const fabric::Path& path, const TreeEdge& edge) {
    for (const DirectedLink hop : path.hops) loads_.Add(hop, edge);
  }

  bool Move(TreeEdge& edge) {
    const auto between = PathsOf(edge);
    std::optional<std::size_t> best;
    double least = std::numeric_limits<double>::max();
    for (std::size_t i = 0; i < between.size(); ++i) {
      if (!fabric::IsUsable(topology_, between[i])) continue;
      const double time = loads_.TimeWith(between[i], edge);
      if (best && time >= least) continue;
      best = i;
      least = time;
    }
    if (!best) return false;
    AddPath(between[*best], edge);
    edge.crossing->path = fabric::PathIndex(static_cast<std::int32_t>(*best));
    return true;
  }

  void SetRates() {
    const auto chunks = static_cast<double>(forest_.chunks);
    const double attained = chunks / loads_.Time();
    if (attained < forest_.algbw_gbps * (1 - kRounding)) forest_.algbw_gbps = attained;
    for (TreeEdge& edge : forest_.edges) {
      if (!edge.crossing) continue;
      edge.crossing->rate_gbps = forest_.algbw_gbps * static_cast<double>(edge.chunks) / chunks;
    }
  }

  const fabric::Topology& topology_;
  const fabric::PathTable& paths_;
  JobForest forest_;
  Loads loads_;
};

}  // namespace

std::optional<JobForest> RerouteForest(const ForestRequest& request,
                                       const fabric::PathTable& paths) {
  if (!MeetsNeeds(*request.previous, request)) return std::nullopt;
  return Rerouting(request, paths).Run();
}

}  // namespace espalier::controller
