#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>

#include "controller/routing/fabric/fabric_view.h"

namespace espalier::controller {

// An exact load: flows on a link, relative to the rate of the fabric's fastest link between
// switches. A subflow of k counts 1/k. On a link of half that rate a flow counts 2.
struct Load {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;  // > 0, no common factor

  std::strong_ordering operator<=>(const Load& other) const;
  bool operator==(const Load& other) const = default;
  double Value() const;
  std::string ToString() const;  // "3/2", "2"
};

// Loads of links are counted in units of 1 / kLoadUnit of a flow. It is the least common multiple
// of 1 to 16, so that the shares of a flow with up to 16 subflows are integers.
constexpr std::int64_t kLoadUnit = 720'720;

// The load of `units` on a link of this capacity (> 0 unless units are 0).
Load MakeLoad(const FabricView& view, std::int64_t units, std::int64_t capacity_bps);
// The greatest load of a link between switches. `loads` are units by directed link, and must be 0
// for links between switches that have no capacity.
Load ComputeMaxLoad(const FabricView& view, std::span<const std::int64_t> loads);

}  // namespace espalier::controller
