#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// A half route: the part of a route between two ranks from the sender up to the hub, the highest
// switch of the route, or from the hub down to the receiver. On a direct link the receiver itself
// is the hub.
struct HalfRoute {
  std::int32_t hub = 0;  // node
  std::int32_t hops_begin = 0;
  std::int32_t hops_end = 0;
};

// The half routes of all ranks. Any half route up to a hub can be continued by any half route down
// from it.
class HalfRoutes {
 public:
  static constexpr std::size_t kMaxHalfRoutes = 256;  // per rank and direction

  // Finds all half routes of the ranks up to switches (on which tiers of the fabric never fall) and
  // down from them, and all others that the routes of a forest use. Returns none if a rank has more
  // than kMaxHalfRoutes.
  static std::optional<HalfRoutes> Find(const Problem& problem, const TreeCount& count,
                                        const Forest& forest);

  // By index among the half routes of the rank.
  const HalfRoute& Out(Rank rank, std::uint16_t place) const { return out_[rank][place]; }
  const HalfRoute& In(Rank rank, std::uint16_t place) const { return in_[rank][place]; }
  std::span<const HalfRoute> Out(Rank rank) const { return out_[rank]; }
  // The arcs of the problem in the direction of the data.
  std::span<const std::int32_t> Hops(const HalfRoute& half) const {
    return {hops_.data() + half.hops_begin, hops_.data() + half.hops_end};
  }
  std::int32_t HeadOf(std::int32_t hop) const { return heads_[static_cast<std::size_t>(hop)]; }
  // Returns whether the route over both passes no switch twice.
  bool GoTogether(const HalfRoute& out, const HalfRoute& in) const;
  // Returns the index of a half route of the rank up to the hub, if there is one.
  std::optional<std::uint16_t> FindOut(Rank rank, std::int32_t hub) const;
  // Returns the index of a half route down from the hub; the rank itself stands for all its direct
  // links.
  std::optional<std::uint16_t> FindIn(Rank rank, std::int32_t hub) const;
  // The ranks that have half routes to a hub, ascending.
  std::span<const Rank> Senders(std::int32_t hub) const {
    return senders_[static_cast<std::size_t>(hub)];
  }

  // Both halves of a route of the forest.
  struct Halves {
    std::uint16_t out = 0;
    std::uint16_t in = 0;
  };
  Halves OfRoute(std::size_t route) const { return of_route_[route]; }

 private:
  using ByRank = std::vector<std::vector<HalfRoute>>;
  using ByHub = std::vector<std::vector<std::pair<std::int32_t, std::uint16_t>>>;

  bool AddHalfRoutes(const Problem& problem, const TreeCount& count, bool down);
  bool AddRoutes(const Problem& problem, const Forest& forest);
  // Returns the index of the half route, which is added if it is new; none if there are too many.
  std::optional<std::uint16_t> Intern(std::vector<HalfRoute>& half_routes, std::int32_t hub,
                                      std::span<const std::int32_t> hops);
  void ListByHub(std::size_t node_count);

  ByRank out_;
  ByRank in_;
  std::vector<std::int32_t> hops_;
  std::vector<std::int32_t> heads_;  // by arc of the problem
  std::vector<Halves> of_route_;
  ByHub out_by_hub_;  // by rank, ascending
  ByHub in_by_hub_;
  std::vector<std::vector<Rank>> senders_;  // by hub
};

}  // namespace espalier::forest
