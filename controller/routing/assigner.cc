#include "controller/routing/assigner.h"

#include <algorithm>

#include "common/base/check.h"
#include "controller/routing/load_bounds.h"

namespace espalier::controller {
namespace {

__extension__ using Wide = __int128;

// A load relative to a capacity, without division.
struct Ratio {
  std::int64_t units = 0;
  std::int64_t capacity = 1;

  bool operator<(const Ratio& other) const {
    if (capacity == other.capacity) return units < other.units;
    return Wide{units} * other.capacity < Wide{other.units} * capacity;
  }
};

}  // namespace

void Assigner::Start(std::span<const Commodity> commodities) {
  result_.first.resize(commodities.size() + 1);
  std::uint32_t ways = 0;
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    ESPALIER_CHECK(commodities[i].ways >= 1 && commodities[i].ways <= kMaxWays, "ways={}",
                   commodities[i].ways);
    result_.first[i] = ways;
    ways += commodities[i].ways;
  }
  result_.first[commodities.size()] = ways;
  result_.paths.assign(ways, kNoPath);
  result_.max_load = result_.lower_bound = {};
  loads_.assign(view_.capacities().size(), 0);
}

const Assignment& Assigner::Greedy(std::span<const Commodity> commodities) {
  Start(commodities);
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    const Commodity& commodity = commodities[i];
    if (commodity.source == commodity.destination) continue;
    const CandidatePaths& paths = view_.Candidates(commodity.source, commodity.destination);
    const std::int64_t share = kLoadUnit / commodity.ways;
    for (std::uint32_t way = 0; way < commodity.ways; ++way) {
      std::int32_t best = kNoPath;
      Ratio least;
      for (std::size_t path = 0; path < paths.size(); ++path) {
        if (!view_.IsUsable(paths.Hops(path))) continue;
        Ratio busiest;
        for (const std::uint32_t link : paths.Hops(path)) {
          busiest = std::max(busiest, Ratio{loads_[link], view_.capacities()[link]});
        }
        if (best != kNoPath && !(busiest < least)) continue;
        best = static_cast<std::int32_t>(path);
        least = busiest;
      }
      if (best == kNoPath) break;
      for (const std::uint32_t link : paths.Hops(static_cast<std::size_t>(best))) {
        loads_[link] += share;
      }
      result_.paths[result_.first[i] + way] = best;
    }
  }
  result_.max_load = ComputeMaxLoad(view_, loads_);
  result_.lower_bound = ComputeLowerBound(view_, commodities);
  return result_;
}

const Assignment& Assigner::Optimal(std::span<const Commodity> commodities,
                                    const AssignOptions& /*options*/) {
  return Greedy(commodities);
}

}  // namespace espalier::controller
