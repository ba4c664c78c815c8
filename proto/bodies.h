#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "proto/messages.h"

// Internal to the decoder: what the decoders of bodies share.
namespace espalier::wire {

inline constexpr std::uint32_t kMaxPort = 65'535;
inline constexpr std::uint32_t kMaxQpn = (1U << 24U) - 1;
inline constexpr std::uint32_t kMaxTtl = 255;
inline constexpr std::uint32_t kMaxPermille = 1'000;
// Bytes and rates fit a signed integer of 64 bits; so do times in nanoseconds (100 years).
inline constexpr std::uint64_t kMaxQuantity = std::numeric_limits<std::int64_t>::max();
inline constexpr std::uint64_t kMaxDurationUs = 3'155'760'000'000'000;

inline std::size_t Size(int protobuf_size) { return static_cast<std::size_t>(protobuf_size); }

// Returns the values of a packed column, which protobuf stores contiguously.
template <typename RepeatedField>
auto Column(const RepeatedField& column) {
  return std::span(column.data(), Size(column.size()));
}

template <typename RepeatedField>
void AssignIds(const RepeatedField& from, std::vector<LocalFlowId>& to) {
  to.resize(Size(from.size()));
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = LocalFlowId(Column(from)[i]);
}

}  // namespace espalier::wire
