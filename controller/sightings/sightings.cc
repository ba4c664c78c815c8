#include "controller/sightings/sightings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/enum_names.h"

namespace espalier::controller {

using fabric::DirectedLink;

namespace {

constexpr std::size_t kMostSourceCharacters = 63;
constexpr Duration kGreatestWindow = std::chrono::seconds(20);

std::string_view CauseText(Attestation::Cause cause) {
  switch (cause) {
    case Attestation::Cause::kPortNotOnWire:
      return "port_not_on_wire";
    case Attestation::Cause::kPathMapStale:
      return "path_map_stale";
    case Attestation::Cause::kSpread:
      return "spread_by_switch";
    case Attestation::Cause::kNone:
      break;
  }
  return "";
}

}  // namespace

std::string_view AttestationName(Attestation::State state) {
  static constexpr EnumNames<Attestation::State> kNames({
      {Attestation::State::kNotSeen, "NOT_SEEN"},
      {Attestation::State::kAsDecided, "AS_DECIDED"},
      {Attestation::State::kElsewhere, "ELSEWHERE"},
  });
  return kNames.NameOf(state);
}

Sightings::Sightings(State& state, Verify verify, Metrics& metrics)
    : state_(state),
      verify_(std::move(verify)),
      reports_(metrics.MakeCounter("espalier_controller_sighting_reports_total",
                                   "Reports of flows whose packets switches sampled")),
      as_decided_(metrics.MakeGauge("espalier_controller_flows_seen_as_decided",
                                    "Flows that switches saw on decided links only")),
      elsewhere_(metrics.MakeGauge("espalier_controller_flows_seen_elsewhere",
                                   "Flows that switches saw on other links than decided")),
      unannounced_flows_(metrics.MakeGauge("espalier_controller_flows_unannounced",
                                           "Large flows that switches saw and no agent reports")) {
  std::int64_t slowest = 0;
  for (const fabric::Link& link : state.topology.links()) {
    if (slowest == 0 || link.rate.value < slowest) slowest = link.rate.value;
  }
  least_bps_ = static_cast<std::int64_t>(kLeastPart * static_cast<double>(slowest));
}

std::uint64_t Sightings::DigestOf(const Flow& flow) const {
  std::uint64_t digest = flow.subflows.size();
  for (const Subflow& subflow : flow.subflows) {
    const auto path = state_.flow_paths.PathOf(subflow);
    const std::uint64_t number = path ? static_cast<std::uint64_t>(path->Index()) + 1 : 0;
    digest = digest * 0x100000001B3U ^ (number << 16 | subflow.port);
  }
  return digest;
}

std::map<Sightings::Ends, std::vector<FlowSlot>> Sightings::FlowsByEnds() const {
  std::map<Ends, std::vector<FlowSlot>> by_ends;
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    by_ends[{flow.source_address, flow.destination_address}].push_back(slot);
  }
  return by_ends;
}

// The queue pair names a flow of RDMA, whatever its port. Others are known by both their ports:
// probes between the same hosts have the same source ports.
std::optional<FlowSlot> Sightings::Match(const std::vector<FlowSlot>& flows,
                                         const SightingReport::Seen& seen) const {
  for (const FlowSlot slot : flows) {
    const Flow& flow = state_.flows.At(slot);
    if (seen.queue_pair != 0 && flow.remote_qpn == seen.queue_pair) return slot;
  }
  for (const FlowSlot slot : flows) {
    const Flow& flow = state_.flows.At(slot);
    const bool has_port = flow.own_port == seen.source_port ||
                          std::ranges::any_of(flow.subflows, [&](const Subflow& subflow) {
                            return subflow.port != 0 && subflow.port == seen.source_port;
                          });
    const bool is_there = flow.key.destination_port == seen.destination_port;
    if (has_port && is_there && flow.protocol == seen.protocol) return slot;
  }
  return std::nullopt;
}

void Sightings::Count(FlowSlot slot, const SightingReport::Seen& seen, Counted& counted) const {
  const Flow& flow = state_.flows.At(slot);
  const auto subflow = std::ranges::find_if(flow.subflows, [&](const Subflow& one) {
    return one.port != 0 && one.port == seen.source_port;
  });
  const bool has_port = subflow != flow.subflows.end();
  const auto path = has_port ? state_.flow_paths.PathOf(*subflow) : std::nullopt;
  for (const SightingReport::OnLink& on : seen.links) {
    if (!state_.topology.IsFabricLink(on.link.link)) continue;  // every path of it has that link
    counted.links[on.link.Index()] += on.samples;
    if (!path) {
      counted.other_port += on.samples;
      continue;
    }
    const auto& hops = state_.PathsOf(flow)[path->Index()].hops;
    const bool is_decided = std::ranges::find(hops, on.link) != hops.end();
    (is_decided ? counted.decided : counted.elsewhere) += on.samples;
    if (!is_decided) counted.stale_port = subflow->port;
  }
}

void Sightings::Announce(const Record& record, FlowSlot slot, const Counted& counted,
                         TimePoint now) {
  const Attestation& attestation = record.attestation;
  const Flow& flow = state_.flows.At(slot);
  if (attestation.cause == Attestation::Cause::kPathMapStale) {
    verify_(flow.key, counted.stale_port);
  }
  const std::vector<wire::Nic>& nics = state_.agents.At(record.agent).nics;
  const auto nic = std::ranges::find(nics, flow.source_address, &wire::Nic::address);
  std::vector<std::string> names;
  for (const DirectedLink link : attestation.links)
    names.push_back(state_.topology.DirectionName(link));
  state_.history.RecordOf(
      "sightings", now, "flow_seen_elsewhere",
      fmt::format("flow={} host={} device={} cause={} decided=\"{}\" seen=\"{}\" samples={}",
                  state_.FlowName(record.agent, record.local), state_.agents.At(record.agent).name,
                  nic == nics.end() || nic->device.empty() ? "unknown" : nic->device,
                  CauseText(attestation.cause), state_.Via(flow), fmt::join(names, ", "),
                  attestation.samples));
}

void Sightings::Judge(FlowSlot slot, const Counted& counted, Duration window, TimePoint now) {
  const Flow& flow = state_.flows.At(slot);
  if (flow.status == FlowStatus::kUnsteered) return;  // nothing is decided for it
  const std::uint64_t digest = DigestOf(flow);
  Record& record = records_[slot.Index()];
  const bool is_same =
      record.agent == flow.agent && record.local == flow.local && record.digest == digest;
  if (!is_same) record = {flow.agent, flow.local, digest, now, {.at = now}};
  if (now - record.stable_since < window + kSettled) return;
  Attestation next{.at = now};
  for (const auto& [index, samples] : counted.links) {
    next.samples += samples;
    next.links.push_back(DirectedLink::FromIndex(index));
  }
  const std::uint32_t wrong = counted.elsewhere + counted.other_port;
  if (wrong >= kEnough) {
    next.state = Attestation::State::kElsewhere;
    if (counted.other_port > counted.elsewhere) {
      next.cause = Attestation::Cause::kPortNotOnWire;
    } else {
      next.cause =
          counted.decided > 0 ? Attestation::Cause::kSpread : Attestation::Cause::kPathMapStale;
    }
  } else if (counted.decided > 0 && wrong == 0) {
    next.state = Attestation::State::kAsDecided;
  } else {
    return;  // one or two samples elsewhere may be late, and say nothing yet
  }
  const bool is_news =
      next.state == Attestation::State::kElsewhere &&
      (record.attestation.state != next.state || record.attestation.cause != next.cause);
  record.attestation = std::move(next);
  if (is_news) Announce(record, slot, counted, now);
}

void Sightings::NoteUnannounced(const SightingReport::Seen& seen, TimePoint now) {
  if (seen.bps < least_bps_) return;
  const UnannouncedKey key{seen.source,      seen.destination,      seen.protocol,
                           seen.source_port, seen.destination_port, seen.queue_pair};
  const auto known = unannounced_.find(key);
  if (known != unannounced_.end()) {
    known->second.seen = seen;
    known->second.last = now;
  } else if (unannounced_.size() < kMostUnannounced) {
    unannounced_.emplace(key, Unannounced{seen, now, now});
  }
}

Result<void> Sightings::HandleReport(const SightingReport& report, TimePoint now) {
  if (report.source.empty() || report.source.size() > kMostSourceCharacters) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("source: must have 1 to {} characters", kMostSourceCharacters));
  }
  if (report.window <= Duration::zero() || report.window > kGreatestWindow) {
    return Fail(ErrorCode::kInvalidArgument, "window_seconds: must be above 0 and at most 20");
  }
  if (report.flows.size() > kMostFlows) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("flows: too many (send at most {})", kMostFlows));
  }
  reports_.Add();
  if (feeds_.size() < kMostFeeds || feeds_.contains(report.source)) feeds_[report.source] = now;
  const auto by_ends = FlowsByEnds();
  std::map<std::size_t, std::pair<FlowSlot, Counted>> counted;
  for (const SightingReport::Seen& seen : report.flows) {
    const auto flows = by_ends.find({seen.source, seen.destination});
    const auto slot = flows == by_ends.end() ? std::nullopt : Match(flows->second, seen);
    if (!slot) {
      NoteUnannounced(seen, now);
      continue;
    }
    auto& [of, counts] = counted[slot->Index()];
    of = *slot;
    Count(*slot, seen, counts);
  }
  for (const auto& [index, of] : counted) Judge(of.first, of.second, report.window, now);
  Tick(now);
  return {};
}

void Sightings::Tick(TimePoint now) {
  std::erase_if(records_,
                [&](const auto& of) { return now - of.second.attestation.at >= kMemory; });
  std::erase_if(unannounced_, [&](const auto& of) { return now - of.second.last >= kMemory; });
  std::erase_if(feeds_, [&](const auto& of) { return now - of.second >= kFeedIsMissedFor; });
  as_decided_.Set(static_cast<double>(as_decided()));
  elsewhere_.Set(static_cast<double>(elsewhere()));
  unannounced_flows_.Set(static_cast<double>(unannounced_.size()));
}

Attestation Sightings::Of(FlowSlot slot) const {
  const auto found = records_.find(slot.Index());
  if (found == records_.end()) return {};
  const Flow& flow = state_.flows.At(slot);
  const Record& record = found->second;
  const bool is_same =
      record.agent == flow.agent && record.local == flow.local && record.digest == DigestOf(flow);
  return is_same ? record.attestation : Attestation{};
}

std::vector<const Sightings::Unannounced*> Sightings::ListUnannounced() const {
  std::vector<const Unannounced*> list;
  for (const auto& [key, of] : unannounced_) list.push_back(&of);
  return list;
}

std::size_t Sightings::elsewhere() const {
  return static_cast<std::size_t>(std::ranges::count_if(records_, [](const auto& of) {
    return of.second.attestation.state == Attestation::State::kElsewhere;
  }));
}

std::size_t Sightings::as_decided() const {
  return static_cast<std::size_t>(std::ranges::count_if(records_, [](const auto& of) {
    return of.second.attestation.state == Attestation::State::kAsDecided;
  }));
}

std::vector<std::string> Sightings::Doubts() const {
  const std::size_t count = elsewhere();
  if (count == 0) return {};
  return {
      fmt::format("switches see {} {} on other links than decided (espalier flows "
                  "--attested ELSEWHERE)",
                  count, count == 1 ? "flow" : "flows")};
}

}  // namespace espalier::controller
