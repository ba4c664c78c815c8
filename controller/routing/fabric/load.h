#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>

#include "controller/routing/fabric/fabric_view.h"

namespace espalier::controller {

// An exact load: flows per unit link (a unit link is the fabric's fastest). A flow split k ways
// puts 1/k on each of its paths, and a link of half the unit's rate counts double.
struct Load {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;  // > 0, no common factor

  std::strong_ordering operator<=>(const Load& other) const;
  bool operator==(const Load& other) const = default;
  double Value() const;
  std::string ToString() const;  // "3/2", "2"
};

// What is on a link is counted in units of 1 / kLoadUnit of a flow: the least common multiple of 1
// to 16, so that the shares of a flow split up to 16 ways are whole.
constexpr std::int64_t kLoadUnit = 720'720;

// `units` of 1 / kLoadUnit of a flow on a link of this capacity (> 0 unless units are 0).
Load MakeLoad(const FabricView& view, std::int64_t units, std::int64_t capacity_bps);
// The greatest of loads relative to capacity, exactly. Links without capacity must bear no load.
Load ComputeMaxLoad(const FabricView& view, std::span<const std::int64_t> loads);

}  // namespace espalier::controller
