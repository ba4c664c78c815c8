#include "controller/routing/occupancy/path_search.h"

#include <algorithm>

namespace espalier::controller {
namespace {

bool Contains(const PathLinks& links, std::uint32_t link) {
  return std::find(links.begin(), links.end(), link) != links.end();
}

}  // namespace

void PathSearch::Begin() {
  moves_.clear();
  ++search_;
  queue_.clear();
}

std::span<const SubflowMove> PathSearch::Insert(SubflowId subflow, const MoveBudget& budget,
                                                std::int64_t& steps) {
  Begin();
  if (TryMovesOf(subflow, kNone, budget, steps)) return moves_;
  return Search(steps);
}

std::span<const SubflowMove> PathSearch::Relieve(std::uint32_t link, const MoveBudget& budget,
                                                 std::int64_t& steps) {
  Begin();
  visited_[link] = search_;
  // A copy, as moves change which subflows are on the link.
  const std::vector<SubflowId> on(links_.SubflowsOn(link).begin(), links_.SubflowsOn(link).end());
  for (const SubflowId subflow : on) {
    if (TryMovesOf(subflow, kNone, budget, steps)) return moves_;
  }
  return Search(steps);
}

std::span<const SubflowMove> PathSearch::Search(std::int64_t& steps) {
  for (std::uint32_t next = 0; next < queue_.size() && steps > 0; ++next) {
    const Step step = queue_[next];
    for (std::size_t i = 0; i < links_.SubflowsOn(step.blocked).size(); ++i) {
      const SubflowId subflow = links_.SubflowsOn(step.blocked)[i];
      const std::int64_t relieved =
          links_.LoadOf(step.blocked) + Change(step, step.blocked) - subflows_[subflow].share;
      if (subflow == step.subflow || relieved > links_.LimitOf(step.blocked)) continue;
      if (TryMovesOf(subflow, next, step.left, steps)) return moves_;
    }
  }
  return {};
}

std::int64_t PathSearch::Change(const Step& step, std::uint32_t link) const {
  const SubflowState& state = subflows_[step.subflow];
  std::int64_t change = 0;
  if (Contains(subflows_.LinksOf(state, step.to), link)) change += state.share;
  if (state.route >= 0 && Contains(subflows_.LinksOf(state, state.route), link))
    change -= state.share;
  return change;
}

std::optional<std::uint32_t> PathSearch::BlockedBy(const SubflowState& state, std::int32_t route,
                                                   std::uint32_t parent) const {
  const std::uint32_t leaving = parent == kNone ? kNone : queue_[parent].blocked;
  std::uint32_t blocked = kNone;
  for (const std::uint32_t link : subflows_.LinksOf(state, route)) {
    if (link == leaving) return std::nullopt;
    const bool is_on_it = state.route >= 0 && Contains(subflows_.LinksOf(state, state.route), link);
    const std::int64_t limit = links_.LimitOf(link);
    std::int64_t load = links_.LoadOf(link) + (is_on_it ? 0 : state.share);
    if (load > limit && parent != kNone) load += Change(queue_[parent], link);
    if (load <= limit) continue;
    // A move may have one blocked link, and each link only once in a search.
    if (blocked != kNone || visited_[link] == search_) return std::nullopt;
    blocked = link;
  }
  return blocked;
}

bool PathSearch::TryMovesOf(SubflowId subflow, std::uint32_t parent, const MoveBudget& budget,
                            std::int64_t& steps) {
  const SubflowState& state = subflows_[subflow];
  MoveBudget left = budget;
  if (state.route >= 0) {
    if (!subflows_.CanMove(subflow, budget)) return false;
    subflows_.Charge(subflow, left);
  }
  const std::int32_t routes = subflows_.RouteCount(state);
  steps -= routes;
  for (std::int32_t route = 0; route < routes; ++route) {
    if (route == state.route || !subflows_.IsUsable(state, route)) continue;
    const auto blocked = BlockedBy(state, route, parent);
    if (!blocked) continue;
    queue_.push_back({subflow, route, *blocked, parent, left});
    if (*blocked == kNone) {
      if (Apply(static_cast<std::uint32_t>(queue_.size() - 1))) return true;
      queue_.pop_back();
    } else {
      visited_[*blocked] = search_;
    }
  }
  return false;
}

bool PathSearch::Apply(std::uint32_t last) {
  moves_.clear();
  for (std::uint32_t at = last; at != kNone; at = queue_[at].parent) {
    moves_.push_back({queue_[at].subflow, subflows_[queue_[at].subflow].route, queue_[at].to});
  }
  std::reverse(moves_.begin(), moves_.end());
  for (const SubflowMove& move : moves_) links_.MoveTo(move.subflow, move.to);
  // A chain that visits a subflow or link twice may not fit, which shows only now.
  const bool fits = std::all_of(moves_.begin(), moves_.end(), [&](const SubflowMove& move) {
    const SubflowState& state = subflows_[move.subflow];
    const PathLinks links = subflows_.LinksOf(state, state.route);
    return state.route == move.to && std::none_of(links.begin(), links.end(), [&](auto link) {
             return links_.IsAboveLimit(link);
           });
  });
  if (fits) return true;
  for (auto move = moves_.rbegin(); move != moves_.rend(); ++move) {
    links_.MoveTo(move->subflow, move->from);
  }
  moves_.clear();
  return false;
}

}  // namespace espalier::controller
