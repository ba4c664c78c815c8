#pragma once

#include <optional>
#include <string_view>

namespace espalier::controller {

// How flows are divided over their subflows.
enum class Shares {
  kEqual,     // equally
  kExact,     // as the least maximum load needs it
  kHalves,    // the load is at most 1/2 above a whole number, with as few parts as that needs
  kQuarters,  // 1/4
  kEighths,   // 1/8
};
std::string_view SharesName(Shares shares);  // "equal", "exact", "halves", ...
std::optional<Shares> FindShares(std::string_view name);

}  // namespace espalier::controller
