#include "controller/routing/bounds/load_bounds.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "controller/routing/bounds/tier_loads.h"
#include "controller/routing/model/cut_room.h"
#include "controller/routing/model/label_search.h"

namespace espalier::controller {
namespace {

// Traffic that must cross the fabric over one of these links.
struct Cut {
  std::int64_t units = 0;
  std::vector<std::uint32_t> links;
};

class CutCollector {
 public:
  CutCollector(const FabricView& view, std::span<const Commodity> commodities,
               std::span<const std::int64_t> base_loads, std::int64_t portion)
      : view_(view),
        base_loads_(base_loads),
        portion_(portion),
        sent_(view.leaf_count()),
        received_(view.leaf_count()) {
    by_pair_.reserve(commodities.size());
    std::int64_t shares = 0;
    for (const Commodity& commodity : commodities) {
      if (commodity.source == commodity.destination) continue;
      by_pair_.push_back({commodity.source, commodity.destination, kLoadUnit});
      if (portion == 0) shares = std::gcd(shares, kLoadUnit / commodity.subflows);
    }
    if (portion == 0) portion_ = shares;
    MergePairs();
  }

  Load Bound() {
    Load bound;
    for (const Pair& pair : by_pair_) {
      Cut first;
      Cut last;
      FindEnds(pair, first.links, last.links);
      if (first.links.empty()) continue;
      first.units = last.units = pair.units;
      bound = std::max({bound, BoundOf(first), BoundOf(last)});
      sent_[pair.source].units += pair.units;
      received_[pair.destination].units += pair.units;
      Append(sent_[pair.source].links, first.links);
      Append(received_[pair.destination].links, last.links);
      AddToGroups(pair);
    }
    for (Cut& cut : sent_) bound = std::max(bound, BoundOf(cut));
    for (Cut& cut : received_) bound = std::max(bound, BoundOf(cut));
    return std::max(bound, BoundOfGroups());
  }

 private:
  struct Pair {
    std::uint32_t source;
    std::uint32_t destination;
    std::int64_t units;
  };

  static void Append(std::vector<std::uint32_t>& all, const std::vector<std::uint32_t>& some) {
    all.insert(all.end(), some.begin(), some.end());
  }

  // All that the NICs of a group send to others leaves it over the links of its leaves.
  void AddToGroups(const Pair& pair) {
    if (!view_.bundled_clos() || !view_.bundled_clos()->has_uplinks) return;
    const BundledClos& clos = *view_.bundled_clos();
    const std::uint32_t from = clos.group_of[pair.source];
    const std::uint32_t to = clos.group_of[pair.destination];
    if (from == to) return;
    groups_sent_.resize(clos.groups.size());
    groups_received_.resize(clos.groups.size());
    groups_sent_[from] += pair.units;
    groups_received_[to] += pair.units;
  }

  Load BoundOfGroups() {
    Load bound;
    for (std::size_t group = 0; group < groups_sent_.size(); ++group) {
      const BundledClos& clos = *view_.bundled_clos();
      const std::size_t bundle = std::size_t{clos.spines} * clos.members;
      const auto links = std::span(clos.leaf_links)
                             .subspan(clos.groups[group].first_leaf * bundle,
                                      clos.groups[group].leaves.size() * bundle);
      Cut out{groups_sent_[group], {}};
      Cut in{groups_received_[group], {}};
      for (const std::uint32_t link : links) {
        if (view_.capacities()[link] == 0) continue;
        out.links.push_back(link);
        in.links.push_back(link ^ 1U);  // the links are undirected
      }
      bound = std::max({bound, BoundOf(out), BoundOf(in)});
    }
    return bound;
  }

  void MergePairs() {
    std::sort(by_pair_.begin(), by_pair_.end(), [](const Pair& x, const Pair& y) {
      return std::pair(x.source, x.destination) < std::pair(y.source, y.destination);
    });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < by_pair_.size(); ++i) {
      if (kept > 0 && by_pair_[kept - 1].source == by_pair_[i].source &&
          by_pair_[kept - 1].destination == by_pair_[i].destination) {
        by_pair_[kept - 1].units += by_pair_[i].units;
      } else {
        by_pair_[kept++] = by_pair_[i];
      }
    }
    by_pair_.resize(kept);
  }

  // The first and last links of the pair's usable paths.
  void FindEnds(const Pair& pair, std::vector<std::uint32_t>& first,
                std::vector<std::uint32_t>& last) {
    if (view_.clos()) {
      const Clos& clos = *view_.clos();
      for (std::uint32_t spine = 0; spine < clos.spines; ++spine) {
        const std::uint64_t bit = std::uint64_t{1} << (spine % 64);
        const std::uint64_t live =
            clos.up_live[std::size_t{pair.source} * clos.words + spine / 64] &
            clos.down_live[std::size_t{pair.destination} * clos.words + spine / 64];
        if ((live & bit) == 0) continue;
        first.push_back(clos.up[std::size_t{pair.source} * clos.spines + spine]);
        last.push_back(clos.down[std::size_t{pair.destination} * clos.spines + spine]);
      }
      return;
    }
    const CandidatePaths& paths = view_.Candidates(pair.source, pair.destination);
    for (std::size_t path = 0; path < paths.size(); ++path) {
      const auto hops = paths.Hops(path);
      if (!view_.IsUsable(hops)) continue;
      first.push_back(hops.front());
      last.push_back(hops.back());
    }
  }

  Load BoundOf(Cut& cut) {
    if (cut.units == 0) return {};
    std::sort(cut.links.begin(), cut.links.end());
    cut.links.erase(std::unique(cut.links.begin(), cut.links.end()), cut.links.end());
    capacities_.clear();
    base_of_cut_.clear();
    for (const std::uint32_t link : cut.links) {
      capacities_.push_back(view_.capacities()[link]);
      if (!base_loads_.empty()) base_of_cut_.push_back(base_loads_[link]);
    }
    return ComputeCutBound(view_, cut.units, portion_, capacities_, base_of_cut_);
  }

  const FabricView& view_;
  std::span<const std::int64_t> base_loads_;
  std::int64_t portion_ = 0;
  std::vector<std::int64_t> capacities_;  // of the links of one cut
  std::vector<std::int64_t> base_of_cut_;
  std::vector<Pair> by_pair_;
  std::vector<Cut> sent_;
  std::vector<Cut> received_;
  std::vector<std::int64_t> groups_sent_;  // units between groups of a bundled Clos
  std::vector<std::int64_t> groups_received_;
};

}  // namespace

Load ComputeCutBound(const FabricView& view, std::int64_t units, std::int64_t portion,
                     std::span<const std::int64_t> capacities,
                     std::span<const std::int64_t> base_loads) {
  return CutRoom(capacities, base_loads, portion).LoadFor(view, (units + portion - 1) / portion);
}

Load ComputeLowerBound(const FabricView& view, std::span<const Commodity> commodities,
                       std::span<const std::int64_t> base_loads, std::int64_t portion) {
  if (view.clos() || !view.folded_clos()) {
    return CutCollector(view, commodities, base_loads, portion).Bound();
  }
  const Load bound = ComputeTierBounds(view, commodities, base_loads, portion).fabric;
  // Pairs of leaves can be narrower than any block only where links are dead.
  if (view.has_all_tier_links() || !CanListPaths(view, commodities)) return bound;
  return std::max(bound, CutCollector(view, commodities, base_loads, portion).Bound());
}

}  // namespace espalier::controller
