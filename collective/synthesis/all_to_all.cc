#include "collective/synthesis/all_to_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "collective/program/builder.h"
#include "collective/program/passes/lower.h"

namespace espalier::synthesis {
namespace {

using forest::Int128;
using forest::Rational;
using program::Buffer;
using program::ProgramBuilder;

constexpr std::int64_t kMaxParts = 4096;                           // of a message in a program
constexpr std::int64_t kMaxProgramChunks = std::int64_t{1} << 24;  // over all ranks

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// The least number of equal parts of which every share is a whole number; none above the limit.
std::optional<std::int64_t> FindParts(const AllToAll& all, std::int64_t limit) {
  Int128 parts = 1;
  for (const RoutingTree& tree : all.routing) {
    const Int128 denominator = tree.share.denominator();
    parts = parts / forest::GreatestCommonDivisor(parts, denominator) * denominator;
    if (parts > limit) return std::nullopt;
  }
  return static_cast<std::int64_t>(parts);
}

// One tree: its nodes with parents before children, and the demand of those below each, itself
// included.
struct Tree {
  std::vector<std::int32_t> order;  // the source first, then by depth
  std::vector<std::int32_t> depth;
  std::vector<std::int64_t> size;
};

// Returns none if the parents are not a tree. `demand` is by node; empty: 1 each.
std::optional<Tree> ReadTree(std::span<const std::int32_t> parent, std::int32_t source,
                             std::span<const std::int64_t> demand = {}) {
  const auto count = static_cast<std::int32_t>(parent.size());
  Tree tree{{},
            std::vector<std::int32_t>(parent.size(), -1),
            std::vector<std::int64_t>(parent.size(), 1)};
  if (!demand.empty()) tree.size.assign(demand.begin(), demand.end());
  tree.depth[At(source)] = 0;
  std::vector<std::int32_t> path;
  for (std::int32_t node = 0; node < count; ++node) {
    path.clear();
    std::int32_t at = node;
    while (tree.depth[At(at)] < 0) {
      path.push_back(at);
      at = parent[At(at)];
      if (at < 0 || at >= count || static_cast<std::int32_t>(path.size()) > count) {
        return std::nullopt;
      }
    }
    for (; !path.empty(); path.pop_back()) {
      tree.depth[At(path.back())] = tree.depth[At(parent[At(path.back())])] + 1;
    }
  }
  tree.order.resize(parent.size());
  std::iota(tree.order.begin(), tree.order.end(), 0);
  std::stable_sort(tree.order.begin(), tree.order.end(), [&](std::int32_t x, std::int32_t y) {
    return tree.depth[At(x)] < tree.depth[At(y)];
  });
  for (auto node = tree.order.rbegin(); *node != source; ++node) {
    tree.size[At(parent[At(*node)])] += tree.size[At(*node)];
  }
  return tree;
}

// Writes the messages of one tree. The messages to the nodes below a node lie side by side at each
// node on the way, each node's own first, so that a link of the tree is one send.
class TreeWriter {
 public:
  TreeWriter(ProgramBuilder& builder, std::span<const std::int32_t> parent, std::int32_t source,
             std::int32_t first_part, std::int32_t part_count, std::int32_t parts)
      : builder_(builder),
        parent_(parent),
        source_(source),
        first_part_(first_part),
        part_count_(part_count),
        parts_(parts),
        tree_(*ReadTree(parent, source)),
        offset_(parent.size(), 0),
        base_(parent.size(), 0) {
    std::vector<std::int32_t> used(parent.size(), 1);  // a node's own message is the first
    used[At(source)] = 0;
    for (const std::int32_t node : tree_.order) {
      if (node == source) continue;
      offset_[At(node)] = used[At(parent[At(node)])];
      used[At(parent[At(node)])] += Size(node);
    }
  }

  // Puts the messages side by side at the source. `scratch` is the memory in use of every rank.
  void Begin(std::vector<std::int32_t>& scratch) {
    base_[At(source_)] = Reserve(scratch, source_, Size(source_) - 1);
    std::vector<std::int32_t> place(parent_.size(), 0);
    for (const std::int32_t node : tree_.order) {
      if (node == source_) continue;
      const std::int32_t parent = parent_[At(node)];
      place[At(node)] = (parent == source_ ? 0 : place[At(parent)]) + offset_[At(node)];
      builder_.Chunk(source_, Buffer::kInput, node * parts_ + first_part_, part_count_)
          .Copy(source_, Buffer::kScratch, base_[At(source_)] + place[At(node)] * part_count_);
    }
  }

  // Sends over the links to nodes at this depth. Returns whether there are any.
  bool SendTo(std::int32_t depth, std::vector<std::int32_t>& scratch) {
    bool any = false;
    for (const std::int32_t node : tree_.order) {
      if (tree_.depth[At(node)] != depth) continue;
      any = true;
      const std::int32_t parent = parent_[At(node)];
      const std::int32_t size = Size(node);
      const auto sent =
          builder_.Chunk(parent, Buffer::kScratch,
                         base_[At(parent)] + offset_[At(node)] * part_count_, size * part_count_);
      const std::int32_t output = source_ * parts_ + first_part_;
      if (size == 1) {
        sent.Copy(node, Buffer::kOutput, output);
        continue;
      }
      base_[At(node)] = Reserve(scratch, node, size);
      sent.Copy(node, Buffer::kScratch, base_[At(node)]);
      builder_.Chunk(node, Buffer::kScratch, base_[At(node)], part_count_)
          .Copy(node, Buffer::kOutput, output);
    }
    return any;
  }

 private:
  std::int32_t Size(std::int32_t node) const {
    return static_cast<std::int32_t>(tree_.size[At(node)]);
  }

  std::int32_t Reserve(std::vector<std::int32_t>& scratch, std::int32_t rank,
                       std::int32_t messages) const {
    const std::int32_t begin = scratch[At(rank)];
    scratch[At(rank)] += messages * part_count_;
    return begin;
  }

  ProgramBuilder& builder_;
  std::span<const std::int32_t> parent_;
  std::int32_t source_;
  std::int32_t first_part_;  // of each message
  std::int32_t part_count_;
  std::int32_t parts_;
  Tree tree_;
  std::vector<std::int32_t> offset_;  // of a node's messages behind its parent's, in messages
  std::vector<std::int32_t> base_;    // where they begin at the node, in chunks
};

tl::unexpected<Error> NoTree(std::string message) {
  return Fail(ErrorCode::kFailedPrecondition, std::move(message));
}

}  // namespace

Result<AllToAllCost> VerifyAllToAll(const Digraph& graph, const AllToAll& all) {
  const std::int32_t count = graph.node_count();
  const auto parts = FindParts(all, std::int64_t{1} << 40);
  if (!parts) return Fail(ErrorCode::kResourceExhausted, "the shares are too fine");
  std::vector<std::vector<Int128>> load;  // by step and arc, in parts
  std::vector<Int128> total(graph.arcs().size(), 0);
  std::vector<Int128> shares(At(count), 0);  // by source
  for (const RoutingTree& of : all.routing) {
    if (of.parent.size() != At(count) || of.source < 0 || of.source >= count) {
      return NoTree("a tree is for another number of nodes");
    }
    const auto demand = all.demand.empty()
                            ? std::span<const std::int64_t>()
                            : std::span(all.demand).subspan(At(of.source) * At(count), At(count));
    const auto tree = ReadTree(of.parent, of.source, demand);
    if (!tree) return NoTree(fmt::format("the routing of node {} is not a tree", of.source));
    const Int128 share = *parts / of.share.denominator() * of.share.numerator();
    shares[At(of.source)] += share;
    for (const std::int32_t node : tree->order) {
      if (node == of.source) continue;
      const std::int32_t arc = graph.Find(of.parent[At(node)], node);
      if (arc < 0) return NoTree(fmt::format("no link from {} to {}", of.parent[At(node)], node));
      const std::size_t step = At(tree->depth[At(node)]) - 1;
      if (load.size() <= step) load.resize(step + 1, std::vector<Int128>(total.size(), 0));
      load[step][At(arc)] += share * tree->size[At(node)];
      total[At(arc)] += share * tree->size[At(node)];
    }
  }
  for (std::int32_t node = 0; node < count; ++node) {
    if (shares[At(node)] != *parts) {
      return NoTree(fmt::format("the shares of node {} do not sum to 1", node));
    }
  }
  const auto highest = [&](const std::vector<Int128>& of) {
    Rational worst;
    for (std::size_t a = 0; a < of.size(); ++a) {
      worst = std::max(worst, Rational(of[a], Int128{graph.arcs()[a].capacity} * *parts));
    }
    return worst;
  };
  AllToAllCost cost{static_cast<std::int32_t>(load.size()), {}, highest(total)};
  std::optional<Rational> sum = Rational();
  for (const auto& of_step : load) {
    if (sum) sum = Rational::Sum(*sum, highest(of_step));
  }
  if (!sum) return Fail(ErrorCode::kResourceExhausted, "the exact cost exceeds 127 bits");
  cost.stepwise = *sum;
  return cost;
}

Result<program::Program> MakeAllToAllProgram(const std::string& name, const AllToAll& all,
                                             std::int32_t nodes, int fifo_slots) {
  if (!all.demand.empty()) {
    return Fail(ErrorCode::kUnsupported, "an all-to-all of unequal messages cannot be a program");
  }
  const auto parts = FindParts(all, kMaxParts);
  if (!parts || *parts * nodes > kMaxProgramChunks / nodes) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the messages would have more than {} parts, or the program is too "
                            "large (give fewer --chunks)",
                            kMaxParts));
  }
  const auto part_count = static_cast<std::int32_t>(*parts);
  const program::CollectiveSpec spec{
      .kind = program::CollectiveKind::kAllToAll, .ranks = nodes, .chunks = nodes * part_count};
  ProgramBuilder builder(name, spec, {.in_place = false, .out_of_place = true});
  std::vector<std::int32_t> scratch(At(nodes), 0);
  std::vector<TreeWriter> writers;
  std::vector<std::int32_t> first(At(nodes), 0);  // by source
  for (const RoutingTree& tree : all.routing) {
    const auto share =
        static_cast<std::int32_t>(*parts / tree.share.denominator() * tree.share.numerator());
    std::int32_t& begin = first[At(tree.source)];
    writers.emplace_back(builder, tree.parent, tree.source, begin, share, part_count);
    begin += share;
  }
  for (std::int32_t rank = 0; rank < nodes; ++rank) {
    builder.Chunk(rank, Buffer::kInput, rank * part_count, part_count)
        .Copy(rank, Buffer::kOutput, rank * part_count);
  }
  for (TreeWriter& writer : writers) writer.Begin(scratch);
  bool any = true;
  for (std::int32_t depth = 1; any && !builder.has_failed(); ++depth) {
    any = false;
    for (TreeWriter& writer : writers) any = writer.SendTo(depth, scratch) || any;
  }
  auto dag = builder.Finish();
  if (!dag) return Propagate(dag);
  return program::Lower(*dag, {.fifo_slots = fifo_slots});
}

}  // namespace espalier::synthesis
