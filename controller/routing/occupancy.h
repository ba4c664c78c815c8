#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/assignment.h"

namespace espalier::controller {

// Which ways (one path of one flow) are on which links, and alternating chains of moves among
// them: a way moves to another path, which pushes a way off the one link that is too full for
// it, which moves to another path, ... until one fits. In a 2-layer Clos a chain that alternates
// between two spines is a Kempe chain of the edge colouring; here it may take any spine and any
// fabric, and every link has its own limit.
//
// Loads are in units of 1 / kLoadUnit of a flow. Thread safety: one thread.
class Occupancy {
 public:
  using Way = std::uint32_t;  // dense, reused after Remove

  struct Move {
    Way way = 0;
    std::int32_t from = 0;  // kNoPath (-1): it had none
    std::int32_t to = 0;
  };

  explicit Occupancy(FabricView& view) : view_(view) { Clear(); }

  // Forgets all ways; the view may have changed.
  void Clear();

  // A way between two leaves, at first without a path. `pinned`: chains never move it.
  Way Add(std::uint32_t source, std::uint32_t destination, std::int64_t share, bool pinned);
  void Remove(Way way);
  // Puts it on a path of FabricView::Candidates, or on none (-1).
  void Place(Way way, std::int32_t path);
  void Pin(Way way, bool pinned) { ways_[way].pinned = pinned; }
  // What it puts on each link of its path from now on.
  void SetShare(Way way, std::int64_t share);

  std::int32_t PathOf(Way way) const { return ways_[way].path; }
  const CandidatePaths& CandidatesOf(Way way) const { return *ways_[way].candidates; }
  std::span<const std::int64_t> loads() const { return loads_; }
  std::span<const Way> WaysOn(std::uint32_t link) const { return ways_on_[link]; }

  // The usable path whose busiest link would carry least with this way on it, relative to its
  // capacity; the lowest index among equals; -1 if no path is usable.
  std::int32_t LeastLoadedPath(Way way) const;

  // Chains bring no link above this load, or none up to it.
  enum class Bound { kAtMost, kBelow };
  void SetLimit(const Load& load, Bound bound);
  bool IsAboveLimit(std::uint32_t link) const { return loads_[link] > limits_[link]; }

  // Finds a path for a way that has none, with at most max_moves moves of others, such that no
  // link that the chain touches is above its limit. Or takes one way off a link and places it
  // elsewhere. The moves are made, and returned in order (valid until the next call); none if
  // there is no such chain within `steps` (candidate paths looked at; what is used is taken off).
  std::span<const Move> Insert(Way way, std::size_t max_moves, std::int64_t& steps);
  std::span<const Move> Relieve(std::uint32_t link, std::size_t max_moves, std::int64_t& steps);

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  struct WayState {
    const CandidatePaths* candidates = nullptr;
    std::int64_t share = 0;
    std::int32_t path = -1;
    bool pinned = false;
  };
  // A move considered: it leaves `blocked` too full, or nothing.
  struct Step {
    Way way;
    std::int32_t to;
    std::uint32_t blocked;
    std::uint32_t parent;  // kNone: the first
    std::uint32_t depth;
  };

  std::span<const Move> Search(std::size_t max_moves, std::int64_t& steps);
  // All moves of a way that leave at most one link too full, after the step `parent`.
  bool TryMovesOf(Way way, std::uint32_t parent, std::int64_t& steps);
  // What the step before adds to a link's load.
  std::int64_t Change(const Step& step, std::uint32_t link) const;
  bool Apply(std::uint32_t last);
  void Put(Way way, std::int32_t path, int sign);

  FabricView& view_;
  std::vector<WayState> ways_;
  std::vector<Way> free_ways_;
  std::vector<std::int64_t> loads_;
  std::vector<std::int64_t> limits_;
  std::vector<std::vector<Way>> ways_on_;  // by link
  std::vector<Step> queue_;
  std::vector<std::uint32_t> visited_;  // by link: the search that visited it
  std::uint32_t search_ = 0;
  std::vector<Move> moves_;
};

}  // namespace espalier::controller
