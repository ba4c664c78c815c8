#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/fabric/load.h"

namespace espalier::controller {

// Tells how many equal, indivisible portions the links of a cut hold besides their base loads.
//
// At level t, a link of capacity c carries at most t * c / fastest units, where `fastest` is the
// greatest capacity of these links: t is thus in units on the fastest of them. Units are 1 /
// kLoadUnit of a flow. All results are exact. A value type; thread safety: const calls only.
class CutRoom {
 public:
  // `capacities_bps` > 0, at least one; `base_loads` by link (empty: none); `portion` > 0.
  CutRoom(std::span<const std::int64_t> capacities_bps, std::span<const std::int64_t> base_loads,
          std::int64_t portion);

  std::int64_t fastest_bps() const { return fastest_bps_; }
  // The portions that fit at this level. O(links).
  std::int64_t PortionsAt(std::int64_t level) const;
  // The smallest whole level at which so many portions (>= 1) fit. O(links) if all links are equal,
  // else O(links log units).
  std::int64_t LevelFor(std::int64_t portions) const;
  // The smallest whole level at which one subflow of this share fits somewhere. O(links).
  std::int64_t LevelForOne(std::int64_t share) const;
  // The smallest load of a link that takes a portion, if so many portions (>= 1) are to be taken.
  Load LoadFor(const FabricView& view, std::int64_t portions) const;

 private:
  std::int64_t PortionsOn(std::size_t link, std::int64_t level) const;

  std::span<const std::int64_t> capacities_;
  std::span<const std::int64_t> base_;
  std::int64_t portion_;
  std::int64_t fastest_bps_ = 0;
  std::int64_t least_base_ = 0;
  std::int64_t most_base_ = 0;
  bool equal_rates_ = true;
};

}  // namespace espalier::controller
