#pragma once

#include <optional>
#include <string_view>

namespace espalier::controller {

// How flows are divided over their subflows.
enum class Shares {
  kEqual,  // equally
  kExact,  // as the least maximum load needs it
};
std::string_view SharesName(Shares shares);  // "equal", "exact"
std::optional<Shares> FindShares(std::string_view name);

}  // namespace espalier::controller
