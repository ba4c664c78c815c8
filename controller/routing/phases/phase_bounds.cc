#include "controller/routing/phases/phase_bounds.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace espalier::controller {
namespace {

__extension__ using Wide = __int128;

// A link of a cut, with what movable flows cannot displace.
struct CutLink {
  std::int64_t capacity = 0;
  std::int64_t fixed = 0;
  std::int64_t count = 1;  // of equal links

  auto operator<=>(const CutLink&) const = default;
};

// How many portions fit on the links at the load at which `full` carries `units`.
Wide RoomAt(std::span<const CutLink> links, const CutLink& full, Wide units, std::int64_t portion) {
  Wide room = 0;
  for (const CutLink& link : links) {
    const Wide left = units * link.capacity / full.capacity - link.fixed;
    if (left > 0) room += left / portion * link.count;
  }
  return room;
}

// Makes equal links one.
void Merge(std::vector<CutLink>& links) {
  std::ranges::sort(links);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < links.size(); ++i) {
    const CutLink& link = links[i];
    const bool is_same = kept > 0 && links[kept - 1].capacity == link.capacity &&
                         links[kept - 1].fixed == link.fixed;
    if (is_same) {
      ++links[kept - 1].count;
    } else {
      links[kept++] = link;
    }
  }
  links.resize(kept);
}

// Problem: find the smallest load t at which the links have room for all portions.
// Idea: at the smallest t some link is exactly full, so t is its fixed load plus k portions. For
// each distinct link, a binary search finds the smallest k; the smallest t over all links is the
// answer. A link that cannot improve the best t so far is skipped after one look.
// Invariant: `low` portions on the link do not give enough room, `high` portions do.
Load CutBound(const FabricView& view, std::span<const CutLink> links, std::int64_t units,
              std::int64_t portion) {
  if (units == 0 || links.empty()) return {};
  const std::int64_t portions = (units + portion - 1) / portion;
  std::optional<Load> best;
  for (const CutLink& link : links) {
    const auto room = [&](std::int64_t k) {
      return RoomAt(links, link, link.fixed + Wide{k} * portion, portion);
    };
    std::int64_t low = 0;
    std::int64_t high = portions;
    if (best) {
      const Wide most = Wide{best->numerator} * kLoadUnit * link.capacity /
                            (Wide{best->denominator} * view.unit_bps()) -
                        link.fixed;
      if (most < portion) continue;
      high = std::min(high, static_cast<std::int64_t>(most / portion));
      if (room(high) < portions) continue;
    }
    while (low + 1 < high) {
      const std::int64_t middle = low + (high - low) / 2;
      (room(middle) >= portions ? high : low) = middle;
    }
    const Load load = MakeLoad(view, link.fixed + high * portion, link.capacity);
    if (!best || load < *best) best = load;
  }
  return *best;
}

// Sums up cuts: for each, its flows by phase.
class PhaseCuts {
 public:
  explicit PhaseCuts(const PhaseProblem& problem)
      : problem_(problem),
        all_(problem.phase_count()),
        movable_(problem.phase_count()),
        unmovable_(problem.link_count()),
        links_seen_(problem.link_count()) {
    for (std::uint32_t flow = 0; flow < problem.flow_count(); ++flow) {
      if (problem.IsPlaced(flow) && problem.IsMovable(flow)) {
        portion_ = std::gcd(portion_, problem.FlowAt(flow).share);
      }
    }
    if (portion_ == 0) portion_ = 1;
    if (problem.view().clos()) most_links_ = problem.view().clos()->spines;
  }

  // `at_source`: the cut is over the first links of the flows' routes, else over the last ones.
  // The cut's links become `links`.
  Load BoundOf(std::span<const std::uint32_t> flows, bool at_source,
               std::vector<std::uint32_t>& links) {
    links.clear();
    SumPhases(flows);
    const std::int64_t units = ChoosePhases();
    for (const std::uint32_t flow : flows) {
      if (!problem_.IsMovable(flow)) AddUnmovable(flow, at_source);
      const auto routes = problem_.RoutesOf(flow);
      if (links.size() == most_links_) continue;
      for (const auto& route : routes) {
        const std::uint32_t link = EndOf(route, at_source);
        if (links_seen_[link]) continue;
        links_seen_[link] = true;
        links.push_back(link);
      }
    }
    for (const std::uint32_t link : links) links_seen_[link] = false;
    chosen_.clear();
    return Bound(links, units);
  }

  // Raises the bounds of phases that are busy alone by the cut of the last BoundOf.
  void RaiseAlone(std::span<const std::uint32_t> flows, bool at_source,
                  std::span<const std::uint32_t> links, std::vector<Load>& alone) {
    const bool all_movable =
        std::ranges::all_of(flows, [this](std::uint32_t flow) { return problem_.IsMovable(flow); });
    std::pair<std::int64_t, Load> last{0, {}};
    for (const std::uint32_t phase : touched_) {
      if (!all_movable) {
        chosen_ = {phase};
        for (const std::uint32_t flow : flows) {
          if (!problem_.IsMovable(flow)) AddUnmovable(flow, at_source);
        }
      }
      if (!all_movable || movable_[phase] != last.first) {
        last = {movable_[phase], Bound(links, movable_[phase])};
      }
      alone[phase] = std::max(alone[phase], last.second);
    }
    chosen_.clear();
  }

  void ForgetPhases() {
    for (const std::uint32_t phase : touched_) all_[phase] = movable_[phase] = 0;
    touched_.clear();
  }

 private:
  // Takes what is unmovable on the links, and forgets it.
  Load Bound(std::span<const std::uint32_t> links, std::int64_t units) {
    cut_.clear();
    for (const std::uint32_t link : links) {
      cut_.push_back({problem_.view().capacities()[link],
                      problem_.BaseOf(link) + std::exchange(unmovable_[link], 0)});
    }
    Merge(cut_);
    return CutBound(problem_.view(), cut_, units, portion_);
  }
  std::uint32_t EndOf(const PhaseProblem::Route& route, bool at_source) const {
    const auto links = problem_.LinksOf(route);
    return at_source ? links.front() : links.back();
  }
  void SumPhases(std::span<const std::uint32_t> flows) {
    for (const std::uint32_t flow : flows) {
      const std::int64_t share = problem_.FlowAt(flow).share;
      for (const std::uint32_t phase : problem_.PhasesOf(flow)) {
        if (all_[phase] == 0) touched_.push_back(phase);
        all_[phase] += share;
        if (problem_.IsMovable(flow)) movable_[phase] += share;
      }
    }
  }
  // Chooses the phase of each job that loads the cut most; returns what is movable of these.
  std::int64_t ChoosePhases() {
    std::ranges::sort(touched_);
    std::int64_t units = 0;
    for (std::size_t i = 0; i < touched_.size();) {
      const std::uint32_t job = problem_.JobOf(touched_[i]);
      std::uint32_t most = touched_[i];
      for (; i < touched_.size() && problem_.JobOf(touched_[i]) == job; ++i) {
        if (std::pair(all_[touched_[i]], movable_[touched_[i]]) >
            std::pair(all_[most], movable_[most])) {
          most = touched_[i];
        }
      }
      chosen_.push_back(most);
      units += movable_[most];
    }
    return units;
  }
  void AddUnmovable(std::uint32_t flow, bool at_source) {
    const std::uint32_t link = EndOf(problem_.RoutesOf(flow)[problem_.HomeOf(flow)], at_source);
    for (const std::uint32_t phase : problem_.PhasesOf(flow)) {
      if (std::ranges::binary_search(chosen_, phase))
        unmovable_[link] += problem_.FlowAt(flow).share;
    }
  }
  const PhaseProblem& problem_;
  std::int64_t portion_ = 0;  // all shares of movable flows are multiples of it
  std::size_t most_links_ = std::numeric_limits<std::size_t>::max();  // of a cut
  std::vector<std::int64_t> all_;                                     // by phase: units of the cut
  std::vector<std::int64_t> movable_;  // by phase: those of movable flows
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint32_t> chosen_;    // ascending
  std::vector<std::int64_t> unmovable_;  // by link, in the chosen phases
  std::vector<bool> links_seen_;
  std::vector<CutLink> cut_;
};

}  // namespace

std::int64_t UnitsAtMost(const FabricView& view, const Load& load, std::uint32_t link) {
  const Wide units = Wide{load.numerator} * kLoadUnit * view.capacities()[link] /
                     (Wide{load.denominator} * view.unit_bps());
  return static_cast<std::int64_t>(std::min<Wide>(units, std::numeric_limits<std::int64_t>::max()));
}

std::int64_t UnitsBelow(const FabricView& view, const Load& load, std::uint32_t link) {
  const Wide numerator = Wide{load.numerator} * kLoadUnit * view.capacities()[link];
  const Wide denominator = Wide{load.denominator} * view.unit_bps();
  return static_cast<std::int64_t>((numerator + denominator - 1) / denominator) - 1;
}

PhaseBounds ComputePhaseBounds(const PhaseProblem& problem) {
  const FabricView& view = problem.view();
  std::vector<std::uint32_t> flows;
  for (std::uint32_t flow = 0; flow < problem.flow_count(); ++flow) {
    if (problem.IsPlaced(flow)) flows.push_back(flow);
  }
  PhaseCuts cuts(problem);
  PhaseBounds bounds{
      .all = {}, .even_share = {}, .alone = std::vector<Load>(problem.phase_count())};
  std::vector<std::pair<std::uint32_t, Load>> by_link;
  std::vector<std::uint32_t> links;
  const auto bound_groups = [&](bool at_source, bool by_pair) {
    const auto key = [&](std::uint32_t flow) {
      const PhaseFlow& state = problem.FlowAt(flow);
      return std::pair(at_source ? state.source : state.destination,
                       !by_pair ? 0 : (at_source ? state.destination : state.source));
    };
    std::ranges::stable_sort(flows, {}, key);
    for (std::size_t begin = 0, end = 0; begin < flows.size(); begin = end) {
      while (end < flows.size() && key(flows[end]) == key(flows[begin])) ++end;
      const auto group = std::span(flows).subspan(begin, end - begin);
      const Load bound = cuts.BoundOf(group, at_source, links);
      bounds.all = std::max(bounds.all, bound);
      if (!by_pair) cuts.RaiseAlone(group, at_source, links, bounds.alone);
      cuts.ForgetPhases();
      if (by_pair) continue;
      for (const std::uint32_t link : links) by_link.emplace_back(link, bound);
    }
  };
  for (const bool at_source : {true, false}) {
    bound_groups(at_source, false);
    bound_groups(at_source, true);
  }
  bounds.even_share.resize(problem.link_count());
  for (std::uint32_t link = 0; link < problem.link_count(); ++link) {
    if (view.capacities()[link] > 0) {
      bounds.even_share[link] = UnitsAtMost(view, bounds.all, link);
    }
  }
  for (const auto& [link, bound] : by_link) {
    bounds.even_share[link] = UnitsAtMost(view, bound, link);
  }
  return bounds;
}

}  // namespace espalier::controller
