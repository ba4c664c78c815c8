#include "collective/algorithms/trees.h"

#include <vector>

#include "collective/algorithms/parts.h"

namespace espalier::algorithms {
namespace {

using program::Buffer;
using program::ChunkRef;
using program::CollectiveKind;
using program::CollectiveSpec;
using program::ProgramBuilder;

constexpr int kPiecesOfTree = 4;

std::size_t At(int i) { return static_cast<std::size_t>(i); }

struct Tree {
  int root = 0;
  std::vector<std::vector<int>> children;
};

// Builds the first tree, or the second one, in which the leaves of the first have children: it is
// mirrored for an even number of ranks and rotated by one for an odd number.
Tree MakeTree(int ranks, bool second) {
  const auto rename = [&](int rank) {
    if (!second) return rank;
    return ranks % 2 == 0 ? ranks - 1 - rank : (rank + 1) % ranks;
  };
  Tree tree{.root = rename(0), .children = std::vector<std::vector<int>>(At(ranks))};
  for (int rank = 1; rank < ranks; ++rank) {
    tree.children[At(rename(FirstTreeParent(rank, ranks)))].push_back(rename(rank));
  }
  return tree;
}

ChunkRef ReduceUp(ProgramBuilder& builder, const Tree& tree, int rank, int chunk) {
  ChunkRef sum = builder.Chunk(rank, Buffer::kInput, chunk);
  for (const int child : tree.children[At(rank)]) {
    sum = sum.ReduceTo(ReduceUp(builder, tree, child, chunk), Buffer::kOutput, chunk);
  }
  return sum;
}

void CopyDown(const Tree& tree, const ChunkRef& chunk) {
  for (const int child : tree.children[At(chunk.rank())]) {
    CopyDown(tree, chunk.Copy(child, Buffer::kOutput, chunk.index()));
  }
}

int Pieces(const AlgorithmOptions& options) {
  return options.pieces == 0 ? kPiecesOfTree : options.pieces;
}

// The ranks from one on, around the end.
std::vector<int> RanksFrom(int first, int ranks) {
  std::vector<int> all;
  for (int place = 0; place < ranks; ++place) all.push_back((first + place) % ranks);
  return all;
}

// The nodes of an algorithm, each led by the rank with the place of the root.
class Nodes {
 public:
  explicit Nodes(const AlgorithmOptions& options)
      : root_(options.root), count_(*CountNodes(options)), ranks_(options.ranks / count_) {}

  // The root comes first.
  std::vector<int> Leaders() const {
    std::vector<int> leaders;
    for (const int node : RanksFrom(root_ / ranks_, count_)) {
      leaders.push_back(node * ranks_ + root_ % ranks_);
    }
    return leaders;
  }
  // The ranks of a leader's node; the leader comes first.
  std::vector<int> RanksWith(int leader) const {
    std::vector<int> ranks;
    for (const int place : RanksFrom(leader % ranks_, ranks_)) {
      ranks.push_back(leader / ranks_ * ranks_ + place);
    }
    return ranks;
  }

 private:
  int root_;
  int count_;
  int ranks_;  // of a node
};

// Copies a chunk of the first rank to the outputs of the others; returns it and all copies.
std::vector<ChunkRef> CopyBinomial(const ChunkRef& first, const std::vector<int>& ranks) {
  std::vector<ChunkRef> chunks{first};
  while (chunks.size() < ranks.size()) {
    const std::size_t reached = chunks.size();
    for (std::size_t place = 0; place < reached && reached + place < ranks.size(); ++place) {
      chunks.push_back(chunks[place].Copy(ranks[reached + place], Buffer::kOutput, 0));
    }
  }
  return chunks;
}

// Reduces chunks of different ranks at the rank of the first one: in its output if it is the root,
// else in scratch memory. Returns the sum.
ChunkRef ReduceBinomial(std::vector<ChunkRef> sums, int root) {
  for (std::size_t distance = 1; distance < sums.size(); distance *= 2) {
    for (std::size_t place = 0; place + distance < sums.size(); place += 2 * distance) {
      const bool is_result = place == 0 && sums[0].rank() == root;
      sums[place] = sums[place].ReduceTo(sums[place + distance],
                                         is_result ? Buffer::kOutput : Buffer::kScratch, 0);
    }
  }
  return sums[0];
}

}  // namespace

int FirstTreeParent(int rank, int ranks) {
  if (rank == 0) return -1;
  const int lowest_bit = rank & -rank;
  const int above = (rank ^ lowest_bit) | (lowest_bit << 1);
  return above < ranks ? above : rank ^ lowest_bit;
}

Result<CollectiveSpec> DescribeAllReduceTrees(const AlgorithmOptions& options) {
  return CollectiveSpec{
      .kind = CollectiveKind::kAllReduce, .ranks = options.ranks, .chunks = 2 * Pieces(options)};
}

void BuildAllReduceTrees(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const int pieces = Pieces(options);
  if (options.ranks == 1) return CopyOwn(builder, 2 * pieces);
  const Tree trees[] = {MakeTree(options.ranks, false), MakeTree(options.ranks, true)};
  for (int piece = 0; piece < pieces; ++piece) {
    for (int i = 0; i < 2; ++i) {
      CopyDown(trees[i], ReduceUp(builder, trees[i], trees[i].root, i * pieces + piece));
    }
  }
}

Result<CollectiveSpec> DescribeBroadcast(const AlgorithmOptions& options) {
  return CollectiveSpec{.kind = CollectiveKind::kBroadcast,
                        .ranks = options.ranks,
                        .chunks = 1,
                        .root = options.root};
}

void BuildBroadcastOneToAll(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const ChunkRef chunk = builder.Chunk(options.root, Buffer::kInput, 0);
  for (int rank = 0; rank < options.ranks; ++rank) chunk.Copy(rank, Buffer::kOutput, 0);
}

void BuildBroadcastBinomial(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const ChunkRef chunk = builder.Chunk(options.root, Buffer::kInput, 0);
  chunk.Copy(options.root, Buffer::kOutput, 0);
  CopyBinomial(chunk, RanksFrom(options.root, options.ranks));
}

Result<CollectiveSpec> DescribeBroadcastHierarchical(const AlgorithmOptions& options) {
  if (auto nodes = CountNodes(options); !nodes) return Propagate(nodes);
  return DescribeBroadcast(options);
}

void BuildBroadcastHierarchical(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const Nodes nodes(options);
  const ChunkRef chunk = builder.Chunk(options.root, Buffer::kInput, 0);
  chunk.Copy(options.root, Buffer::kOutput, 0);
  const auto reached = CopyBinomial(chunk, nodes.Leaders());
  for (const ChunkRef& one : reached) CopyBinomial(one, nodes.RanksWith(one.rank()));
}

Result<CollectiveSpec> DescribeReduce(const AlgorithmOptions& options) {
  return CollectiveSpec{
      .kind = CollectiveKind::kReduce, .ranks = options.ranks, .chunks = 1, .root = options.root};
}

void BuildReduceBinomial(ProgramBuilder& builder, const AlgorithmOptions& options) {
  if (options.ranks == 1) return CopyOwn(builder, 1);
  std::vector<ChunkRef> sums;
  for (const int rank : RanksFrom(options.root, options.ranks)) {
    sums.push_back(builder.Chunk(rank, Buffer::kInput, 0));
  }
  ReduceBinomial(sums, options.root);
}

Result<CollectiveSpec> DescribeReduceHierarchical(const AlgorithmOptions& options) {
  if (auto nodes = CountNodes(options); !nodes) return Propagate(nodes);
  return DescribeReduce(options);
}

void BuildReduceHierarchical(ProgramBuilder& builder, const AlgorithmOptions& options) {
  if (options.ranks == 1) return CopyOwn(builder, 1);
  const Nodes nodes(options);
  std::vector<ChunkRef> of_nodes;
  for (const int leader : nodes.Leaders()) {
    std::vector<ChunkRef> sums;
    for (const int rank : nodes.RanksWith(leader)) {
      sums.push_back(builder.Chunk(rank, Buffer::kInput, 0));
    }
    of_nodes.push_back(ReduceBinomial(sums, options.root));
  }
  ReduceBinomial(of_nodes, options.root);
}

}  // namespace espalier::algorithms
