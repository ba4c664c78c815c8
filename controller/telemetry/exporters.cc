#include "controller/telemetry/exporters.h"

#include <utility>

namespace espalier::telemetry {
namespace {

// Clocks of switches may have whole seconds only, and datagrams overtake each other.
constexpr std::uint32_t kUptimeSlackMs = 5'000;

}  // namespace

Exporters::Exporters(std::vector<Exporter> exporters)
    : exporters_(std::move(exporters)), states_(exporters_.size()), sub_agents_(exporters_.size()) {
  for (std::size_t i = 0; i < exporters_.size(); ++i) {
    by_addresses_.emplace(std::pair(exporters_[i].agent, exporters_[i].source), i);
  }
}

Exporters::Verdict Exporters::JudgeSequence(SubAgent& sub_agent, const SflowDatagram& datagram,
                                            State& state) {
  const bool uptime_fell = datagram.uptime_ms < sub_agent.uptime_ms &&
                           sub_agent.uptime_ms - datagram.uptime_ms > kUptimeSlackMs;
  if (uptime_fell) {
    const bool continues = sub_agent.restart && datagram.sequence > sub_agent.restart->first &&
                           datagram.sequence - sub_agent.restart->first <= kWindow &&
                           datagram.uptime_ms >= sub_agent.restart->second;
    if (!continues) {
      sub_agent.restart = {datagram.sequence, datagram.uptime_ms};
      return Verdict::kLate;
    }
    sub_agent = {.sequence = datagram.sequence, .uptime_ms = datagram.uptime_ms};
    ++state.restarts;
    return Verdict::kTakeRestarted;
  }
  const auto ahead = static_cast<std::int32_t>(datagram.sequence - sub_agent.sequence);
  if (ahead > 0) {
    const auto distance = static_cast<std::uint32_t>(ahead);
    state.lost += distance - 1;
    sub_agent.seen = distance < kWindow ? sub_agent.seen << distance | 1U : 1U;
    sub_agent.sequence = datagram.sequence;
    sub_agent.uptime_ms = std::max(sub_agent.uptime_ms, datagram.uptime_ms);
    sub_agent.restart.reset();
    return Verdict::kTake;
  }
  const auto behind = static_cast<std::uint32_t>(-static_cast<std::int64_t>(ahead));
  if (behind >= kWindow) return Verdict::kLate;
  const std::uint64_t bit = std::uint64_t{1} << behind;
  if ((sub_agent.seen & bit) != 0) return Verdict::kRepeated;
  sub_agent.seen |= bit;
  if (state.lost > 0) --state.lost;  // it was counted when the gap opened
  return Verdict::kTake;
}

Exporters::Judged Exporters::Judge(const IpAddress& source, const SflowDatagram& datagram,
                                   TimePoint now) {
  const auto found = by_addresses_.find({datagram.agent, source});
  if (found == by_addresses_.end()) return {};
  const std::size_t exporter = found->second;
  State& state = states_[exporter];
  auto& sub_agents = sub_agents_[exporter];
  auto known = sub_agents.find(datagram.sub_agent);
  Verdict verdict = Verdict::kTake;
  if (known != sub_agents.end()) {
    verdict = JudgeSequence(known->second, datagram, state);
  } else if (sub_agents.size() >= kMostSubAgents) {
    verdict = Verdict::kTooManySubAgents;
  } else {
    sub_agents.emplace(datagram.sub_agent,
                       SubAgent{.sequence = datagram.sequence, .uptime_ms = datagram.uptime_ms});
  }
  if (verdict == Verdict::kTake || verdict == Verdict::kTakeRestarted) {
    ++state.datagrams;
    state.heard = now;
  }
  return {verdict, exporter};
}

}  // namespace espalier::telemetry
