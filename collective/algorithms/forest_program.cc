#include "collective/algorithms/forest_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "collective/program/builder.h"
#include "collective/program/passes/lower.h"

namespace espalier::algorithms {
namespace {

using forest::Collective;
using forest::Forest;
using forest::Phase;
using forest::TreeSchedule;
using program::Buffer;
using program::CollectiveKind;
using program::CollectiveSpec;

std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

// A part of the data on a tree edge, and the channel of its path.
struct Part {
  std::int64_t count = 0;  // trees
  int channel = 0;
};

struct Edge {
  int parent = 0;
  int child = 0;
  std::vector<Part> parts;
};

// The edges of a class of trees, parents first.
struct Tree {
  int root = 0;
  std::int64_t count = 0;
  std::int32_t height = 0;
  std::vector<Edge> edges;
};

// Numbers the paths between two ranks. A path and its reverse have the same number.
class Paths {
 public:
  int FindChannel(int from, int to, std::vector<fabric::NodeId> nodes) {
    if (from > to) std::ranges::reverse(nodes);
    auto& known = by_ranks_[std::pair(std::min(from, to), std::max(from, to))];
    auto found = std::ranges::find(known, nodes, &Numbered::nodes);
    if (found == known.end()) found = known.insert(found, {.nodes = std::move(nodes)});
    (from < to ? found->leads_up : found->leads_down) = true;
    return static_cast<int>(found - known.begin());
  }

  std::vector<ConnectionPath> Take() {
    std::vector<ConnectionPath> paths;
    for (auto& [ranks, known] : by_ranks_) {
      for (std::size_t i = 0; i < known.size(); ++i) {
        auto& [nodes, leads_up, leads_down] = known[i];
        const auto channel = static_cast<std::int32_t>(i);
        if (leads_down) {
          paths.push_back({ranks.second, ranks.first, channel, {nodes.rbegin(), nodes.rend()}});
        }
        if (leads_up) paths.push_back({ranks.first, ranks.second, channel, std::move(nodes)});
      }
    }
    std::ranges::sort(paths, {}, [](const ConnectionPath& path) {
      return std::tuple(path.from, path.to, path.channel);
    });
    return paths;
  }

 private:
  struct Numbered {
    std::vector<fabric::NodeId> nodes;  // from the lower rank to the higher one
    bool leads_up = false;              // used in this direction
    bool leads_down = false;
  };

  std::map<std::pair<int, int>, std::vector<Numbered>> by_ranks_;
};

// Returns the nodes of a route in the direction of the data; hops are listed from parent to child.
std::vector<fabric::NodeId> FindNodes(const Phase& phase, std::span<const std::int32_t> hops) {
  std::vector<fabric::NodeId> nodes;
  for (std::size_t i = 0; i < hops.size(); ++i) {
    const std::size_t at = phase.reversed ? hops.size() - 1 - i : i;
    const forest::Channel& channel = phase.channels[At(hops[at])];
    if (nodes.empty()) nodes.push_back(channel.from);
    nodes.push_back(channel.to);
  }
  return nodes;
}

// Returns the ranks with children after their parents.
std::vector<int> OrderFromRoot(std::span<const forest::Rank> parents, int root) {
  std::vector<std::vector<int>> children(parents.size());
  for (std::size_t rank = 0; rank < parents.size(); ++rank) {
    if (parents[rank] != forest::kNoRank) {
      children[parents[rank]].push_back(static_cast<int>(rank));
    }
  }
  std::vector<int> order{root};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& next = children[At(order[i])];
    order.insert(order.end(), next.begin(), next.end());
  }
  order.erase(order.begin());
  return order;
}

Result<std::vector<Tree>> ReadTrees(const Forest& forest, const Phase& phase, Paths& paths) {
  std::vector<Tree> trees;
  forest::RouteCursor cursor(forest.routes);
  for (std::size_t c = 0; c < forest.classes.size(); ++c) {
    const forest::TreeClass& tree_class = forest.classes[c];
    const auto parents = forest.Parents(c);
    Tree& tree = trees.emplace_back(Tree{.root = tree_class.root,
                                         .count = tree_class.count,
                                         .height = forest::ComputeHeight(parents)});
    for (const int child : OrderFromRoot(parents, tree.root)) {
      const int parent = parents[At(child)];
      Edge& edge = tree.edges.emplace_back(Edge{.parent = parent, .child = child});
      const auto arc =
          forest.routes.Find(static_cast<forest::Rank>(parent), static_cast<forest::Rank>(child));
      if (arc >= 0) {
        for (const auto& piece : cursor.Take(At(arc), tree.count)) {
          auto nodes = FindNodes(phase, forest.routes.Hops(*piece.route));
          const int channel = phase.reversed ? paths.FindChannel(child, parent, std::move(nodes))
                                             : paths.FindChannel(parent, child, std::move(nodes));
          edge.parts.push_back({piece.count, channel});
        }
      }
      if (edge.parts.empty()) {
        return Fail(ErrorCode::kInternal,
                    fmt::format("tree {}: no route from rank {} to rank {}", c, parent, child));
      }
    }
  }
  return trees;
}

// Returns the trees per chunk: the greatest number that divides the size of every group of trees
// that move together.
std::int64_t FindTreesPerChunk(const std::vector<std::vector<Tree>>& phases) {
  std::int64_t common = 0;
  for (const auto& trees : phases) {
    for (const Tree& tree : trees) {
      common = std::gcd(common, tree.count);
      for (const Edge& edge : tree.edges) {
        for (const Part& part : edge.parts) common = std::gcd(common, part.count);
      }
    }
  }
  return std::max<std::int64_t>(common, 1);
}

Result<CollectiveSpec> Describe(const TreeSchedule& schedule, std::int64_t trees_per_chunk) {
  CollectiveSpec spec{.ranks = static_cast<int>(schedule.ranks.size())};
  std::int64_t chunks = 0;
  std::vector<std::int64_t> shares;
  for (const std::int64_t weight : schedule.weights) {
    shares.push_back(weight * schedule.trees_per_weight / trees_per_chunk);
    chunks += shares.back();
  }
  constexpr std::int64_t kMaxChunks = 1 << 24;
  if (chunks > kMaxChunks) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("a program of {} chunks is too large", chunks));
  }
  spec.chunks = static_cast<int>(chunks);
  const bool equal = std::ranges::adjacent_find(shares, std::not_equal_to<>()) == shares.end();
  switch (schedule.collective) {
    case Collective::kAllgather:
      if (!equal) {
        return Fail(ErrorCode::kInvalidArgument,
                    "an allgather of unequal shares cannot be a program (make the weights equal)");
      }
      spec.kind = CollectiveKind::kAllGather;
      break;
    case Collective::kReduceScatter:
      spec.kind = CollectiveKind::kReduceScatter;
      if (!equal) spec.counts.assign(shares.begin(), shares.end());
      break;
    case Collective::kAllreduce:
      spec.kind = CollectiveKind::kAllReduce;
      break;
    case Collective::kBroadcast:
    case Collective::kReduce:
      spec.kind = schedule.collective == Collective::kReduce ? CollectiveKind::kReduce
                                                             : CollectiveKind::kBroadcast;
      spec.root =
          static_cast<int>(std::ranges::find_if(schedule.weights, [](auto w) { return w > 0; }) -
                           schedule.weights.begin());
      break;
  }
  return spec;
}

// Writes trees as operations on chunks. Indices count in the data of all ranks' shares, in the
// order of the ranks.
class Writer {
 public:
  Writer(program::ProgramBuilder& builder, const CollectiveSpec& spec, const TreeSchedule& schedule,
         std::int64_t trees_per_chunk)
      : builder_(builder), spec_(spec), trees_per_chunk_(trees_per_chunk) {
    int first = 0;
    for (const std::int64_t weight : schedule.weights) {
      first_.push_back(first);
      first += static_cast<int>(weight * schedule.trees_per_weight / trees_per_chunk);
    }
  }

  void Write(const std::vector<Tree>& trees, bool reversed) {
    std::vector<int> next = first_;
    for (const Tree& tree : trees) {
      const auto count = static_cast<int>(tree.count / trees_per_chunk_);
      int& begin = next[At(tree.root)];
      reversed ? ReduceUp(tree, begin, count) : CopyDown(tree, begin, count);
      begin += count;
    }
  }

 private:
  // Returns where a rank's own contribution to a part of the data is.
  int InputIndex(int rank, int index) const {
    return spec_.kind == CollectiveKind::kAllGather ? index - first_[At(rank)] : index;
  }

  template <typename Visitor>
  void ForParts(const Edge& edge, int begin, Visitor visit) const {
    for (const Part& part : edge.parts) {
      const auto count = static_cast<int>(part.count / trees_per_chunk_);
      visit(begin, count, part.channel);
      begin += count;
    }
  }

  void CopyDown(const Tree& tree, int begin, int count) {
    // An allreduce has its results in the output already.
    const bool has_result = spec_.kind == CollectiveKind::kAllReduce;
    if (!has_result) {
      builder_.Chunk(tree.root, Buffer::kInput, InputIndex(tree.root, begin), count)
          .Copy(tree.root, Buffer::kOutput, begin);
    }
    for (const Edge& edge : tree.edges) {
      const bool from_input = edge.parent == tree.root && !has_result;
      ForParts(edge, begin, [&](int index, int chunks, int channel) {
        builder_
            .Chunk(edge.parent, from_input ? Buffer::kInput : Buffer::kOutput,
                   from_input ? InputIndex(edge.parent, index) : index, chunks)
            .Copy(edge.child, Buffer::kOutput, index, channel);
      });
    }
  }

  void ReduceUp(const Tree& tree, int begin, int count) {
    std::vector<bool> has_sum(first_.size(), false);
    const auto place = [&](int rank, int index) {
      if (!has_sum[At(rank)]) return program::Location{Buffer::kInput, index};
      return SumPlace(tree, rank, index);
    };
    for (auto edge = tree.edges.rbegin(); edge != tree.edges.rend(); ++edge) {
      ForParts(*edge, begin, [&](int index, int chunks, int channel) {
        const auto own = place(edge->parent, index);
        const auto sent = place(edge->child, index);
        const auto sum = SumPlace(tree, edge->parent, index);
        builder_.Chunk(edge->parent, own.buffer, own.index, chunks)
            .ReduceTo(builder_.Chunk(edge->child, sent.buffer, sent.index, chunks), sum.buffer,
                      sum.index, channel);
      });
      has_sum[At(edge->parent)] = true;
    }
    if (tree.edges.empty()) {
      const auto sum = SumPlace(tree, tree.root, begin);
      builder_.Chunk(tree.root, Buffer::kInput, begin, count)
          .Copy(tree.root, sum.buffer, sum.index);
    }
  }

  // Returns where a rank adds up the data of its children.
  program::Location SumPlace(const Tree& tree, int rank, int index) const {
    if (spec_.kind == CollectiveKind::kAllReduce) return {Buffer::kOutput, index};
    if (rank != tree.root) return {Buffer::kScratch, index};
    const bool is_scattered = spec_.kind == CollectiveKind::kReduceScatter;
    return {Buffer::kOutput, is_scattered ? index - first_[At(rank)] : index};
  }

  program::ProgramBuilder& builder_;
  const CollectiveSpec& spec_;
  std::int64_t trees_per_chunk_;
  std::vector<int> first_;  // by rank: where its share begins
};

// Finds which of the numbered paths each tree takes.
std::vector<TreeConnections> FindConnections(const TreeSchedule& schedule,
                                             const std::vector<std::vector<Tree>>& phases,
                                             const std::vector<ConnectionPath>& paths) {
  std::vector<TreeConnections> all;
  const auto find = [&](int from, int to, int channel) {
    const auto before = [](const ConnectionPath& path, const std::tuple<int, int, int>& key) {
      return std::tuple(path.from, path.to, path.channel) < key;
    };
    const auto found =
        std::lower_bound(paths.begin(), paths.end(), std::tuple(from, to, channel), before);
    return static_cast<std::int32_t>(found - paths.begin());
  };
  for (std::size_t phase = 0; phase < phases.size(); ++phase) {
    const bool up = schedule.phases[phase].reversed;
    for (const Tree& tree : phases[phase]) {
      TreeConnections& told = all.emplace_back(TreeConnections{.phase = phase,
                                                               .to_root = up,
                                                               .root = tree.root,
                                                               .count = tree.count,
                                                               .height = tree.height});
      for (const Edge& edge : tree.edges) {
        for (const Part& part : edge.parts) {
          told.connections.push_back(up ? find(edge.child, edge.parent, part.channel)
                                        : find(edge.parent, edge.child, part.channel));
        }
      }
      std::sort(told.connections.begin(), told.connections.end());
    }
  }
  return all;
}

}  // namespace

Result<ForestProgram> MakeForestProgram(const std::string& name, const TreeSchedule& schedule,
                                        int fifo_slots) {
  Paths paths;
  std::vector<std::vector<Tree>> phases;
  for (const Phase& phase : schedule.phases) {
    auto trees = ReadTrees(schedule.forests[phase.forest], phase, paths);
    if (!trees) return Propagate(trees);
    phases.push_back(std::move(*trees));
  }
  ForestProgram result;
  result.trees_per_chunk = FindTreesPerChunk(phases);
  auto spec = Describe(schedule, result.trees_per_chunk);
  if (!spec) return Propagate(spec);
  program::ProgramBuilder builder(name, *spec, {.in_place = true, .out_of_place = true});
  Writer writer(builder, *spec, schedule, result.trees_per_chunk);
  for (std::size_t i = 0; i < phases.size() && !builder.has_failed(); ++i) {
    writer.Write(phases[i], schedule.phases[i].reversed);
  }
  auto chunks = builder.Finish();
  if (!chunks) return Propagate(chunks);
  auto lowered = program::Lower(*chunks, {.fifo_slots = fifo_slots});
  if (!lowered) return Propagate(lowered);
  result.program = std::move(*lowered);
  result.paths = paths.Take();
  result.trees = FindConnections(schedule, phases, result.paths);
  return result;
}

}  // namespace espalier::algorithms
