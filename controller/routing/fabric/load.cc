#include "controller/routing/fabric/load.h"

#include <fmt/format.h>

#include <numeric>

#include "common/base/check.h"

namespace espalier::controller {
namespace {

__extension__ using Wide = __int128;

Wide GreatestCommonDivisor(Wide a, Wide b) {
  while (b != 0) {
    const Wide rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

}  // namespace

std::strong_ordering Load::operator<=>(const Load& other) const {
  return Wide{numerator} * other.denominator <=> Wide{other.numerator} * denominator;
}

double Load::Value() const {
  return static_cast<double>(numerator) / static_cast<double>(denominator);
}

std::string Load::ToString() const {
  return denominator == 1 ? fmt::format("{}", numerator)
                          : fmt::format("{}/{}", numerator, denominator);
}

Load MakeLoad(const FabricView& view, std::int64_t units, std::int64_t capacity_bps) {
  if (units == 0) return {};
  ESPALIER_CHECK(units > 0 && capacity_bps > 0, "units={} capacity={}", units, capacity_bps);
  const std::int64_t rates = std::gcd(view.unit_bps(), capacity_bps);
  const Wide numerator = Wide{units} * (view.unit_bps() / rates);
  const Wide denominator = Wide{kLoadUnit} * (capacity_bps / rates);
  const Wide common = GreatestCommonDivisor(numerator, denominator);
  return {static_cast<std::int64_t>(numerator / common),
          static_cast<std::int64_t>(denominator / common)};
}

Load ComputeMaxLoad(const FabricView& view, std::span<const std::int64_t> loads) {
  std::int64_t worst = 0;
  std::int64_t worst_capacity = 1;
  for (std::uint32_t link = 0; link < loads.size(); ++link) {
    if (loads[link] == 0 || !view.IsSwitchLink(link)) continue;
    const std::int64_t capacity = view.capacities()[link];
    if (Wide{loads[link]} * worst_capacity <= Wide{worst} * capacity) continue;
    worst = loads[link];
    worst_capacity = capacity;
  }
  return MakeLoad(view, worst, worst_capacity);
}

}  // namespace espalier::controller
