#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/strong_id.h"
#include "controller/routing/fabric/fabric_view.h"

namespace espalier::controller {

// Identifies a subflow or a reservation. Ids are dense and are reused after removal.
using SubflowId = StrongId<struct SubflowTag, std::uint32_t>;
constexpr SubflowId kNoSubflow(0xFFFF'FFFF);

struct SubflowMove {
  SubflowId subflow;
  std::int32_t from = 0;  // kNoPath: none
  std::int32_t to = 0;
};

// How much a chain of moves may move.
struct MoveBudget {
  std::size_t moves = std::numeric_limits<std::size_t>::max();
  // Of these, subflows in progress.
  std::size_t in_progress = std::numeric_limits<std::size_t>::max();
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max();  // in flight
};

// Returns the bytes in flight of a subflow in progress; called only when it might move. Not set: 0.
using BytesInFlight = std::function<std::int64_t(SubflowId)>;

// A route numbers a path: in a Clos it is the spine, even if no path through it exists; in a folded
// Clos of more tiers the label; elsewhere the index among the candidate paths. kNoPath: none.
struct alignas(32) SubflowState {
  const CandidatePaths* candidates = nullptr;  // null in a Clos and a folded Clos
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::int32_t route = kNoPath;
  std::uint32_t walk : 30 = 0;  // the last KempeChains walk that took it
  bool pinned : 1 = false;
  bool in_progress : 1 = false;
  std::int64_t share = 0;  // its load on each link of its path, in 1 / kLoadUnit of a flow
};

// Holds all subflows: the leaves and the route of each, and what it costs to move it.
//
// LinkTable::MoveTo sets the routes, together with the state of links. A subflow in progress costs
// its bytes in flight, one that has not begun costs less than any other. The view must outlive it.
// All calls are O(1), except converting paths in a Clos with missing links (O(spines / 64)).
// Thread safety: one thread.
class SubflowTable {
 public:
  static constexpr std::int64_t kNotInProgress = -1;

  explicit SubflowTable(const FabricView& view, BytesInFlight bytes_in_flight = nullptr)
      : view_(view), bytes_in_flight_(std::move(bytes_in_flight)) {}

  void Clear() {
    subflows_.clear();
    free_.clear();
  }
  // Adds a subflow between two leaves, without a route.
  SubflowId Add(std::uint32_t source, std::uint32_t destination, std::int64_t share, bool pinned);
  // Frees its id for reuse; it must have no route.
  void Remove(SubflowId subflow) { free_.push_back(subflow); }

  SubflowState& operator[](SubflowId subflow) { return subflows_[subflow.Index()]; }
  const SubflowState& operator[](SubflowId subflow) const { return subflows_[subflow.Index()]; }

  // The ancestors of a subflow's leaves in a folded Clos, by tier, and the tier of the lowest
  // common one.
  struct Ends {
    const std::uint32_t* from;
    const std::uint32_t* to;
    std::uint32_t top;
  };
  Ends EndsOf(const SubflowState& state) const {
    const fabric::FoldedClos& clos = *view_.folded_clos();
    const std::uint32_t* const all = clos.ancestors.data();
    Ends ends{all + std::size_t{view_.FoldedLeaf(state.source)} * clos.tiers,
              all + std::size_t{view_.FoldedLeaf(state.destination)} * clos.tiers, 1};
    while (ends.top < clos.tiers && ends.from[ends.top] != ends.to[ends.top]) ++ends.top;
    return ends;
  }

  // Convert between routes and paths (indices as in FabricView::Candidates).
  std::int32_t ToPath(const SubflowState& state, std::int32_t route) const {
    if (route < 0 || state.candidates != nullptr) return route;
    if (!view_.clos())
      return view_.folded_clos()->PathOf(view_.FoldedLeaf(state.source), CommonOf(state),
                                         LabelOf(route));
    return view_.clos()->PathThrough(state.source, state.destination,
                                     static_cast<std::uint32_t>(route));
  }
  std::int32_t ToRoute(const SubflowState& state, std::int32_t path) const {
    if (path < 0 || state.candidates != nullptr) return path;
    if (!view_.clos()) {
      return static_cast<std::int32_t>(
          view_.folded_clos()->LabelOf(view_.FoldedLeaf(state.source), CommonOf(state), path));
    }
    return static_cast<std::int32_t>(view_.clos()->SpineOf(state.source, state.destination, path));
  }
  std::int32_t RouteCount(const SubflowState& state) const {
    if (state.candidates != nullptr) return static_cast<std::int32_t>(state.candidates->size());
    if (view_.clos()) return static_cast<std::int32_t>(view_.clos()->spines);
    const std::uint32_t common = CommonOf(state);
    if (common == fabric::FoldedClos::kNone) return 0;
    return static_cast<std::int32_t>(view_.folded_clos()->blocks[common].labels);
  }
  PathLinks LinksOf(const SubflowState& state, std::int32_t route) const {
    const auto index = static_cast<std::size_t>(route);
    if (state.candidates != nullptr) return PathLinks(state.candidates->Hops(index));
    if (!view_.clos()) {
      const Ends ends = EndsOf(state);
      return PathLinks(*view_.folded_clos(), ends.from, ends.to, ends.top, LabelOf(route));
    }
    const Clos& clos = *view_.clos();
    return PathLinks(clos.up[std::size_t{state.source} * clos.spines + index],
                     clos.down[std::size_t{state.destination} * clos.spines + index]);
  }
  // Whether the path exists and all its links take new flows.
  bool IsUsable(const SubflowState& state, std::int32_t route) const {
    const PathLinks links = LinksOf(state, route);
    return std::all_of(links.begin(), links.end(), [&](std::uint32_t link) {
      return link != kNoLink && view_.capacities()[link] > 0;
    });
  }

  // Its bytes in flight; kNotInProgress if it has not begun.
  std::int64_t CostOf(SubflowId subflow) const {
    if (!subflows_[subflow.Index()].in_progress) return kNotInProgress;
    return bytes_in_flight_ ? bytes_in_flight_(subflow) : 0;
  }
  // Whether it is not pinned and moving it is within the budget.
  bool CanMove(SubflowId subflow, const MoveBudget& budget) const {
    const SubflowState& state = subflows_[subflow.Index()];
    if (state.pinned || budget.moves == 0) return false;
    return !state.in_progress || (budget.in_progress > 0 && CostOf(subflow) <= budget.bytes);
  }
  // Takes the cost of moving it off the budget.
  void Charge(SubflowId subflow, MoveBudget& budget) const {
    --budget.moves;
    if (!subflows_[subflow.Index()].in_progress) return;
    --budget.in_progress;
    budget.bytes -= CostOf(subflow);
  }

 private:
  static std::uint32_t LabelOf(std::int32_t route) { return static_cast<std::uint32_t>(route); }
  // The lowest block of a folded Clos that holds both leaves; kNone: they are in different parts.
  std::uint32_t CommonOf(const SubflowState& state) const {
    return view_.folded_clos()->CommonBlock(view_.FoldedLeaf(state.source),
                                            view_.FoldedLeaf(state.destination));
  }

  const FabricView& view_;
  const BytesInFlight bytes_in_flight_;
  std::vector<SubflowState> subflows_;
  std::vector<SubflowId> free_;
};

}  // namespace espalier::controller
