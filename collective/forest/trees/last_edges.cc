#include "collective/forest/trees/last_edges.h"

#include <algorithm>

namespace espalier::forest {
namespace {

constexpr int kMoves = 2;                  // edges moved to make room for one
constexpr std::size_t kFewSenders = 64;    // up to so many senders of a hub, all are considered
constexpr std::size_t kChoice = 8;         // senders with room to choose from
constexpr std::size_t kSenders = 16;       // senders that are asked to make room
constexpr std::size_t kTrees = 16;         // trees in which a sender's edges are tried
constexpr std::size_t kEdges = 4;          // edges tried in each of these trees
constexpr std::size_t kDirectTrees = 256;  // trees tried for a direct link
constexpr std::size_t kDirectEdges = 32;   // edges tried in all of these trees together

}  // namespace

LastEdges::LastEdges(const HalfRoutes& half_routes, TreeTable& trees)
    : half_routes_(half_routes),
      trees_(trees),
      max_trees_(2 * trees.TreeCountOf()),
      first_tree_(trees.RankCount() + 1, 0),
      looks_left_(static_cast<std::int64_t>(trees.TreeCountOf() * trees.RankCount()) + 1'000'000) {
  for (std::uint32_t t = 0; t < trees.TreeCountOf(); ++t) {
    ++first_tree_[trees.RootOf(t) + std::size_t{1}];
  }
  for (std::size_t r = 0; r < trees.RankCount(); ++r) first_tree_[r + 1] += first_tree_[r];
}

bool LastEdges::PlaceAll(std::vector<Edge> edges, const Control& control) {
  while (!edges.empty()) {
    ListRoomy();
    const std::size_t before = edges.size();
    const auto is_placed = [&](const Edge& edge) {
      return looks_left_ > 0 && !control.IsCancelled() && Place(edge, kMoves);
    };
    edges.erase(std::remove_if(edges.begin(), edges.end(), is_placed), edges.end());
    if (control.IsCancelled() || (looks_left_ <= 0 && !edges.empty())) return false;
    if (edges.size() == before && !DivideTrees(edges)) return false;
  }
  return true;
}

// Divides the trees to which the edges belong; returns false if none can be divided.
bool LastEdges::DivideTrees(std::vector<Edge>& edges) {
  std::vector<Edge> added;
  std::optional<std::uint32_t> last;
  std::uint32_t others = 0;
  for (const Edge& edge : edges) {
    if (edge.tree != last) {
      last = edge.tree;
      others = edge.tree;
      const std::int64_t count = trees_.CountOf(edge.tree);
      if (count > 1 && trees_.TreeCountOf() < max_trees_) {
        const std::int64_t room = MostRoom(edge);
        others = trees_.Divide(edge.tree, room > 0 && room < count ? room : count / 2);
      }
    }
    if (others != edge.tree) added.push_back({others, edge.child});
  }
  edges.insert(edges.end(), added.begin(), added.end());
  return !added.empty();
}

// Returns the most room among the ranks that could send.
std::int64_t LastEdges::MostRoom(const Edge& edge) {
  std::int64_t most = 0;
  for (const Rank rank : RoomySenders(edge)) {
    if (const auto candidate = FindCandidate(edge, rank)) {
      most = std::max(most, trees_.RoomOf(half_routes_.Out(rank, candidate->sender.out)));
    }
  }
  return most;
}

void LastEdges::ListRoomy() {
  roomy_.clear();
  for (std::size_t r = 0; r < trees_.RankCount(); ++r) {
    const auto rank = static_cast<Rank>(r);
    const std::span<const HalfRoute> half_routes = half_routes_.Out(rank);
    if (std::any_of(half_routes.begin(), half_routes.end(),
                    [this](const HalfRoute& half) { return trees_.RoomOf(half) > 0; })) {
      roomy_.push_back(rank);
    }
  }
}

bool LastEdges::Place(const Edge& edge, int more_moves) {
  if (PlaceInRoom(edge)) return true;
  if (more_moves == 0) return false;
  const std::span<const Rank> senders = half_routes_.Senders(trees_.InOf(edge).hub);
  std::vector<Candidate> candidates;
  const std::size_t turn = turn_++;
  for (std::size_t i = 0; i < senders.size() && candidates.size() < kSenders; ++i) {
    const auto candidate = FindCandidate(edge, senders[(turn + i) % senders.size()]);
    if (candidate) candidates.push_back(*candidate);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& x, const Candidate& y) { return x.depth < y.depth; });
  return std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
    return TakeFromOther(edge, candidate.sender, more_moves - 1);
  });
}

// Returns ranks that reach the edge's hub and are likely to have room.
std::span<const Rank> LastEdges::RoomySenders(const Edge& edge) const {
  const std::span<const Rank> senders = half_routes_.Senders(trees_.InOf(edge).hub);
  return senders.size() <= kFewSenders ? senders : std::span<const Rank>(roomy_);
}

bool LastEdges::PlaceInRoom(const Edge& edge) {
  const std::span<const Rank> asked = RoomySenders(edge);
  std::optional<Candidate> best;
  const std::size_t turn = turn_++;
  for (std::size_t i = 0, found = 0; i < asked.size() && found < kChoice; ++i) {
    const auto candidate = FindCandidate(edge, asked[(turn + i) % asked.size()]);
    if (!candidate || FullArc(edge, candidate->sender) >= 0) continue;
    ++found;
    if (!best || candidate->depth < best->depth) best = candidate;
  }
  if (best) trees_.Attach(edge, best->sender);
  return best.has_value();
}

// Returns the half route by which the rank could send, with room or without, if the rank is in the
// tree and not below the edge.
std::optional<LastEdges::Candidate> LastEdges::FindCandidate(const Edge& edge, Rank rank) {
  --looks_left_;
  if (!trees_.IsAttached({edge.tree, rank})) return std::nullopt;
  const HalfRoute& in = trees_.InOf(edge);
  const auto out = half_routes_.FindOut(rank, in.hub);
  if (!out || !half_routes_.GoTogether(half_routes_.Out(rank, *out), in)) return std::nullopt;
  const std::span<const Rank> parents = trees_.Parents(edge.tree);
  std::int32_t depth = 0;
  for (Rank at = rank; at != kNoRank; at = parents[at], ++depth) {
    if (at == edge.child) return std::nullopt;
  }
  return Candidate{{rank, *out}, depth};
}

// Returns an arc of the sender's half route that has no room for the edge; -1 if all have room.
std::int32_t LastEdges::FullArc(const Edge& edge, const Sender& sender) const {
  for (const std::int32_t hop : half_routes_.Hops(half_routes_.Out(sender.rank, sender.out))) {
    if (trees_.LeftOn(hop) < trees_.CountOf(edge.tree)) return hop;
  }
  return -1;
}

bool LastEdges::TakeFromOther(const Edge& edge, const Sender& sender, int more_moves) {
  const std::int32_t arc = FullArc(edge, sender);
  if (trees_.InOf(edge).hub == edge.child) return TakeOnDirectLink(edge, sender, arc, more_moves);
  // Most edges of a sender are in the trees of which it is the root.
  const std::uint32_t own_end = first_tree_[sender.rank + std::size_t{1}];
  std::uint32_t own = first_tree_[sender.rank];
  for (std::size_t i = 0; i < kTrees; ++i) {
    const std::uint32_t tree = own < own_end ? own++ : NextTree();
    if (tree != edge.tree && TakeFromTree(edge, sender, tree, arc, more_moves)) return true;
  }
  return false;
}

// Only edges to the same rank use the link.
bool LastEdges::TakeOnDirectLink(const Edge& edge, const Sender& sender, std::int32_t arc,
                                 int more_moves) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < kDirectTrees && found < kDirectEdges; ++i) {
    const Edge other{NextTree(), edge.child};
    if (trees_.Parents(other.tree)[edge.child] != sender.rank || !Uses(other, arc)) continue;
    if (Replace(other, edge, sender, more_moves)) return true;
    ++found;
  }
  return false;
}

bool LastEdges::TakeFromTree(const Edge& edge, const Sender& sender, std::uint32_t tree,
                             std::int32_t arc, int more_moves) {
  const std::size_t start = turn_++ * 31 % trees_.RankCount();
  for (std::size_t found = 0, at = start; found < kEdges; ++at) {
    const std::span<const Rank> parents = trees_.Parents(tree);
    const auto next =
        std::find(parents.begin() + static_cast<std::ptrdiff_t>(at), parents.end(), sender.rank);
    if (next == parents.end()) return false;
    at = static_cast<std::size_t>(next - parents.begin());
    const Edge other{tree, static_cast<Rank>(at)};
    if (!Uses(other, arc)) continue;
    if (Replace(other, edge, sender, more_moves)) return true;
    ++found;
  }
  return false;
}

bool LastEdges::Uses(const Edge& edge, std::int32_t arc) const {
  const Sender sender = trees_.SenderOf(edge);
  const auto hops = half_routes_.Hops(half_routes_.Out(sender.rank, sender.out));
  return std::find(hops.begin(), hops.end(), arc) != hops.end();
}

// Gives the edge the sender of another edge if that one finds a new sender.
bool LastEdges::Replace(const Edge& other, const Edge& edge, const Sender& sender, int more_moves) {
  const Sender old = trees_.SenderOf(other);
  trees_.Detach(other);
  if (FullArc(edge, sender) < 0) {
    trees_.Attach(edge, sender);
    if (Place(other, more_moves)) return true;
    trees_.Detach(edge);
  }
  trees_.Attach(other, old);
  return false;
}

std::uint32_t LastEdges::NextTree() {
  constexpr std::size_t kStride = 7'919;  // a prime; neighbouring trees are alike
  return static_cast<std::uint32_t>(turn_++ * kStride % trees_.TreeCountOf());
}

}  // namespace espalier::forest
