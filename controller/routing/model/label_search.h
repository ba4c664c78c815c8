#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "controller/routing/model/assignment.h"

namespace espalier::controller {

// A load relative to a capacity, compared without division.
struct LoadRatio {
  std::int64_t units = 0;
  std::int64_t capacity = 1;

  bool operator<(const LoadRatio& other) const {
    __extension__ using Wide = __int128;
    if (capacity == other.capacity) return units < other.units;
    return Wide{units} * other.capacity < Wide{other.units} * capacity;
  }
};

// Whether the candidate paths of all commodities may be listed: always, except in a folded Clos of
// more than two tiers with more than a million of them.
bool CanListPaths(const FabricView& view, std::span<const Commodity> commodities);

// Searches the paths between two leaves of a folded Clos tier by tier, without listing them: a
// choice below that is no better than the best path known ends the search there.
class LabelSearch {
 public:
  explicit LabelSearch(const FabricView& view) : view_(view) {}

  // The usable path whose busiest link, relative to its capacity, carries least by `loads` (units
  // by directed link; empty: all 0), the first of equals; or kNoPath. At worst O(paths), and
  // O(tiers x width) if some path is idle. The leaves must differ.
  std::int32_t LeastLoaded(std::span<const std::int64_t> loads, std::uint32_t source,
                           std::uint32_t destination);
  // The same by other loads, over other paths: units_of(link) is the load of a directed link (< 0:
  // no path may take it), and accepts(path) whether a path may be the result.
  template <typename UnitsOf, typename Accepts>
  std::int32_t LeastLoaded(std::uint32_t source, std::uint32_t destination, const UnitsOf& units_of,
                           const Accepts& accepts);
  // Whether there is a usable path.
  bool IsRoutable(std::uint32_t source, std::uint32_t destination) {
    return LeastLoaded({}, source, destination) != kNoPath;
  }

 private:
  template <typename UnitsOf, typename Accepts>
  void Descend(std::uint32_t tier, std::uint32_t label, std::int32_t path, LoadRatio busiest,
               const UnitsOf& units_of, const Accepts& accepts);

  const FabricView& view_;
  std::uint32_t from_ = 0;
  std::uint32_t to_ = 0;
  std::uint32_t top_ = 0;
  std::int32_t best_ = kNoPath;
  LoadRatio least_;
};

template <typename UnitsOf, typename Accepts>
std::int32_t LabelSearch::LeastLoaded(std::uint32_t source, std::uint32_t destination,
                                      const UnitsOf& units_of, const Accepts& accepts) {
  const fabric::FoldedClos& clos = *view_.folded_clos();
  from_ = view_.FoldedLeaf(source);
  to_ = view_.FoldedLeaf(destination);
  best_ = kNoPath;
  const std::uint32_t common = clos.CommonBlock(from_, to_);
  if (common == fabric::FoldedClos::kNone) return kNoPath;
  top_ = clos.blocks[common].tier;
  Descend(1, 0, 0, {}, units_of, accepts);
  return best_;
}

template <typename UnitsOf, typename Accepts>
void LabelSearch::Descend(std::uint32_t tier, std::uint32_t label, std::int32_t path,
                          LoadRatio busiest, const UnitsOf& units_of, const Accepts& accepts) {
  const fabric::FoldedClos& clos = *view_.folded_clos();
  const auto capacities = view_.capacities();
  const auto& block = clos.blocks[clos.Ancestor(from_, tier)];
  const auto& sender = clos.blocks[clos.Ancestor(from_, tier - 1)];
  const auto& receiver = clos.blocks[clos.Ancestor(to_, tier - 1)];
  const std::uint32_t first = label * block.width;
  for (std::uint32_t rank = 0; rank < block.width; ++rank) {
    if (best_ != kNoPath && !(busiest < least_)) return;
    const std::uint32_t here = first + clos.label_at[block.first_top + first + rank];
    const std::uint32_t up = clos.UpLink(sender, here);
    const std::uint32_t down = clos.DownLink(receiver, here);
    if (capacities[up] == 0 || capacities[down] == 0) continue;
    const LoadRatio above{units_of(up), capacities[up]};
    const LoadRatio below{units_of(down), capacities[down]};
    if (above.units < 0 || below.units < 0) continue;
    const LoadRatio worst = std::max({busiest, above, below});
    if (best_ != kNoPath && !(worst < least_)) continue;
    const std::int32_t next =
        path * static_cast<std::int32_t>(block.width) + static_cast<std::int32_t>(rank);
    if (tier < top_) {
      Descend(tier + 1, here, next, worst, units_of, accepts);
    } else if (accepts(next)) {
      best_ = next;
      least_ = worst;
    }
  }
}

}  // namespace espalier::controller
