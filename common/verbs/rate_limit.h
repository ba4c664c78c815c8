#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace espalier::verbs {

inline constexpr std::uint64_t kRateUnit = 1000;  // bits per second: rates are in kbit/s

// Limits the rate at which the device sends from the queue pair; 0: no limit. Returns 0 or an errno
// value: EOPNOTSUPP from most devices.
inline int LimitRate(ibv_qp& pair, std::uint64_t bits_per_second) {
  ibv_qp_rate_limit_attr limit = {};
  limit.rate_limit = static_cast<std::uint32_t>(
      std::min<std::uint64_t>((bits_per_second + kRateUnit - 1) / kRateUnit, UINT32_MAX));
  return ibv_modify_qp_rate_limit(&pair, &limit);
}

// The highest rate, in bits per second, to which the device can limit queue pairs of this type
// each; 0: it reports no packet pacing for them.
inline std::uint64_t HighestPacedRate(ibv_context& device, ibv_qp_type type) {
  // As ibv_query_device_ex, without the part of it that needs a function of libibverbs.
  const verbs_context* const extended = verbs_get_ctx(&device);
  if (extended == nullptr || extended->query_device_ex == nullptr ||
      extended->sz < sizeof(*extended) - offsetof(verbs_context, query_device_ex)) {
    return 0;
  }
  ibv_device_attr_ex attributes = {};
  if (extended->query_device_ex(&device, nullptr, &attributes, sizeof(attributes)) != 0) return 0;
  const ibv_packet_pacing_caps& pacing = attributes.packet_pacing_caps;
  const bool has_type = (pacing.supported_qpts & (1U << static_cast<unsigned>(type))) != 0;
  return has_type ? std::uint64_t{pacing.qp_rate_limit_max} * kRateUnit : 0;
}

}  // namespace espalier::verbs
