#pragma once

#include <cstdint>
#include <span>

#include "controller/routing/assignment.h"

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
  // by directed link), the first of equals; or kNoPath. At worst O(paths), and O(tiers x width) if
  // some path is idle. The leaves must differ.
  std::int32_t LeastLoaded(std::span<const std::int64_t> loads, std::uint32_t source,
                           std::uint32_t destination);
  // Whether there is a usable path.
  bool IsRoutable(std::uint32_t source, std::uint32_t destination) {
    return LeastLoaded({}, source, destination) != kNoPath;
  }

 private:
  void Descend(std::uint32_t tier, std::uint32_t label, std::int32_t path, LoadRatio busiest);

  const FabricView& view_;
  std::span<const std::int64_t> loads_;  // empty: all 0
  std::uint32_t from_ = 0;
  std::uint32_t to_ = 0;
  std::uint32_t top_ = 0;
  std::int32_t best_ = kNoPath;
  LoadRatio least_;
};

}  // namespace espalier::controller
