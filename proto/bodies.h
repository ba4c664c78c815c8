#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "proto/messages.h"
#include "proto/rules.h"

// Internal to the decoder: how it decodes the body of each kind of message.
namespace espalier::v1 {
class Ack;
class CollectiveReport;
class FlowReport;
class Heartbeat;
class Hello;
class LinkEvent;
class PathHealth;
class PathPush;
class ProbeOrder;
class ProbeReport;
class RankPlan;
class TrainOrder;
class TrainReport;
class Welcome;
}  // namespace espalier::v1

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

// Each function fills the body from its protobuf form, overwriting all of it and keeping its
// capacity. If the form breaks a rule, `rules` has the first error and the body is unspecified.
void DecodeBody(const v1::Hello& from, Rules& rules, Hello& to);
void DecodeBody(const v1::Welcome& from, Rules& rules, Welcome& to);
void DecodeBody(const v1::Heartbeat& from, Rules& rules, Heartbeat& to);
void DecodeBody(const v1::FlowReport& from, Rules& rules, FlowReport& to);
void DecodeBody(const v1::PathPush& from, Rules& rules, PathPush& to);
void DecodeBody(const v1::Ack& from, Rules& rules, Ack& to);
void DecodeBody(const v1::ProbeOrder& from, Rules& rules, ProbeOrder& to);
void DecodeBody(const v1::ProbeReport& from, Rules& rules, ProbeReport& to);
void DecodeBody(const v1::PathHealth& from, Rules& rules, PathHealth& to);
void DecodeBody(const v1::LinkEvent& from, Rules& rules, LinkEvent& to);
void DecodeBody(const v1::RankPlan& from, Rules& rules, RankPlan& to);
void DecodeBody(const v1::CollectiveReport& from, Rules& rules, CollectiveReport& to);
void DecodeBody(const v1::TrainOrder& from, Rules& rules, TrainOrder& to);
void DecodeBody(const v1::TrainReport& from, Rules& rules, TrainReport& to);

}  // namespace espalier::wire
