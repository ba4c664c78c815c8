#include "proto/message_cost.h"

#include <algorithm>
#include <variant>

namespace espalier::wire {
namespace {

constexpr std::int64_t kMessage = 8;
// The controller answers a Hello by a Welcome, and handles a full report and a full push after it.
constexpr std::int64_t kHello = 10'000;
// A row of progress costs one entry even if it tells of an edge: a busy flow mostly keeps its path.
// An opened flow is assigned, pushed and perhaps probed for; an ended one frees its path.
constexpr std::int64_t kOpenedFlow = 16;
constexpr std::int64_t kEndedFlow = 4;
constexpr std::int64_t kHealth = 8;
// A path that died is recorded, its links are accused, and the flow's new path is looked for.
constexpr std::int64_t kDeadPath = 32;
// The controller answers by all paths of the agent.
constexpr std::int64_t kNeedFull = 10'000;
constexpr std::int64_t kNic = 4;
// The tokens of its packets are computed and compared.
constexpr std::int64_t kReceivedTrain = 4;

template <typename Rows>
std::int64_t Count(const Rows& rows) {
  return static_cast<std::int64_t>(rows.size());
}

std::int64_t EntriesOf(const FlowReport& report) {
  return Count(report.jobs) + Count(report.addresses) + kOpenedFlow * Count(report.opened) +
         Count(report.progress) + kEndedFlow * Count(report.ended);
}
std::int64_t EntriesOf(const Hello& hello) {
  return kHello + kNic * Count(hello.nics) + Count(hello.features);
}
std::int64_t EntriesOf(const Ack& ack) {
  return Count(ack.failed_flows) + (ack.status == AckStatus::kNeedFull ? kNeedFull : 0);
}
std::int64_t EntriesOf(const ProbeReport& report) { return Count(report.answers); }
std::int64_t EntriesOf(const PathHealth& health) {
  const auto dead = std::ranges::count_if(health.flows, [](const FlowHealth& flow) {
    return flow.recovered_us == 0 &&
           (flow.verdict == PathVerdict::kDead || flow.verdict == PathVerdict::kLocallyRerouted);
  });
  return kHealth * Count(health.flows) + (kDeadPath - kHealth) * dead;
}
std::int64_t EntriesOf(const LinkEvent& /*event*/) { return kNic; }
std::int64_t EntriesOf(const TrainReport& report) {
  return Count(report.sent) + kReceivedTrain * Count(report.received);
}
template <typename Other>
std::int64_t EntriesOf(const Other& /*body*/) {
  return 0;
}

}  // namespace

std::int64_t CostOf(const Body& body) {
  return kMessage + std::visit([](const auto& of) { return EntriesOf(of); }, body);
}

}  // namespace espalier::wire
