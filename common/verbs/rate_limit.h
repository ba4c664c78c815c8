#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>

namespace espalier::verbs {

// Limits the rate at which the device sends from the queue pair; 0: no limit. Returns 0 or an errno
// value: EOPNOTSUPP from most devices.
inline int LimitRate(ibv_qp& pair, std::uint64_t bits_per_second) {
  constexpr std::uint64_t kBitsPerUnit = 1000;
  ibv_qp_rate_limit_attr limit = {};
  limit.rate_limit = static_cast<std::uint32_t>(
      std::min<std::uint64_t>((bits_per_second + kBitsPerUnit - 1) / kBitsPerUnit, UINT32_MAX));
  return ibv_modify_qp_rate_limit(&pair, &limit);
}

}  // namespace espalier::verbs
