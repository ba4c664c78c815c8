#include "controller/telemetry/polls/polled_switches.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/log.h"

namespace espalier::telemetry {

using fabric::DirectedLink;

namespace {

constexpr int kSilentIntervals = 3;

// The polled switches in the form of SwitchPorts.
std::vector<Exporter> PortTables(const std::vector<Poll>& polls) {
  std::vector<Exporter> tables;
  for (const Poll& poll : polls) {
    tables.push_back({.node = poll.node, .agent = {}, .source = {}, .ports = poll.ports});
  }
  return tables;
}

}  // namespace

PolledSwitches::Counters::Counters(Metrics& metrics)
    : answers(metrics.MakeCounter("espalier_telemetry_polls_answered_total",
                                  "Polls of switches whose answer was read")),
      failures(metrics.MakeCounter("espalier_telemetry_polls_failed_total",
                                   "Polls of switches without an answer that can be read")),
      refused(metrics.MakeCounter("espalier_telemetry_poll_values_refused_total",
                                  "Values in answers that are no valid numbers or states, or occur "
                                  "twice")),
      left_out(metrics.MakeCounter("espalier_telemetry_poll_ports_left_out_total",
                                   "Ports in answers for which there was no room")),
      implausible(metrics.MakeCounter("espalier_telemetry_poll_counters_implausible_total",
                                      "Pairs of polled counters that cannot be true")),
      silent(metrics.MakeGauge("espalier_telemetry_polls_silent",
                               "Polled sources that have not answered for three intervals")),
      unmatched(metrics.MakeGauge("espalier_telemetry_poll_ports_unmatched",
                                  "Names of ports in answers that stand for no known link")) {}

PolledSwitches::PolledSwitches(const fabric::Topology& topology, std::vector<Poll> polls,
                               const Options& options, Metrics& metrics, TimePoint now)
    : topology_(topology),
      polls_(std::move(polls)),
      options_(options),
      begin_(now),
      ports_(topology, PortTables(polls_)),
      port_counters_(topology),
      links_(topology.links().size()),
      sources_(polls_.size()),
      counters_(metrics) {
  for (Entry& entry : sources_) entry.source.heard = now;
}

void PolledSwitches::SetState(Source& source, std::size_t out, Port& port, PortState state) {
  if (port.state == state) return;
  for (const auto& [counted, number] :
       {std::pair(PortState::kUp, &source.up), std::pair(PortState::kDown, &source.down)}) {
    if (port.state == counted) --*number;
    if (state == counted) ++*number;
  }
  const fabric::LinkId link = DirectedLink::FromIndex(out).link;
  if (topology_.IsFabricLink(link)) links_.HandlePort(link, port.state, state);
  port.state = state;
}

void PolledSwitches::HandleState(Entry& entry, const SwitchPorts::Named& named, PortState state) {
  Port& port = entry.ports[named.out.Index()];
  port.is_named = true;
  port.was_up = port.was_up || state == PortState::kUp;
  const bool is_believed = state != PortState::kDown || named.is_in_topology || port.was_up;
  SetState(entry.source, named.out.Index(), port, is_believed ? state : PortState::kUnknown);
}

void PolledSwitches::HandleCounters(std::size_t poll, DirectedLink out, const PortReading& port,
                                    TimePoint at) {
  if (!port.rx_bytes && !port.tx_bytes) return;
  const auto [owner, is_new] = counted_by_.try_emplace(out.Index(), poll);
  if (owner->second != poll) {
    if (!sources_[owner->second].source.is_silent) return;
    port_counters_.HandleRestart(owner->second);  // counters of two sources make no pair
    owner->second = poll;
  }
  constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
  SflowCounterSample::Interface counters;
  counters.in_octets = port.rx_bytes.value_or(kUnknown);
  counters.out_octets = port.tx_bytes.value_or(kUnknown);
  // The switch does not say its uptime: our clock stands for it.
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(at - begin_);
  port_counters_.Handle(out, counters,
                        {.exporter = poll,
                         .uptime_ms = static_cast<std::uint32_t>(since.count()),
                         .at = at,
                         .port_bps = port.speed_bps});
}

void PolledSwitches::NoteUnmatched(std::size_t poll, const std::set<std::string>& names) {
  Source& source = sources_[poll].source;
  const bool is_first = source.unmatched.empty() && !names.empty();
  for (const std::string& name : names) {
    if (source.unmatched.size() >= kMostUnmatched) break;
    source.unmatched.insert(name);
  }
  if (!is_first) return;
  constexpr std::size_t kMostLogged = 16;
  auto end = names.begin();
  std::advance(end, std::min(kMostLogged, names.size()));
  Log(LogLevel::kInfo, "event=poll_ports_unmatched node={} names={} first=\"{}\"",
      topology_.node(polls_[poll].node).id, names.size(), fmt::join(names.begin(), end, " "));
}

void PolledSwitches::HandleReadings(std::size_t poll, const PortReadings& readings, TimePoint at) {
  Entry& entry = sources_[poll];
  entry.source.heard = std::max(entry.source.heard, at);
  entry.source.problem.clear();
  ++entry.source.answers;
  counters_.answers.Add();
  counters_.refused.Add(static_cast<std::int64_t>(readings.refused));
  counters_.left_out.Add(static_cast<std::int64_t>(readings.left_out));
  if (entry.source.is_silent) {
    entry.source.is_silent = false;
    Log(LogLevel::kInfo, "event=poll_answers node={} target=\"{}\"",
        topology_.node(polls_[poll].node).id, Printable(polls_[poll].target.Name()));
  }
  for (auto& [out, port] : entry.ports) port.is_named = false;
  const bool counts = at >= entry.counters_due;
  if (counts) entry.counters_due = at + options_.counters_interval;
  std::set<std::string> unmatched;
  for (const PortReading& port : readings.ports) {
    const auto named = ports_.FindName(poll, port.name);
    if (!named) {
      unmatched.insert(Printable(port.name));
      continue;
    }
    HandleState(entry, *named, port.state);
    if (counts) HandleCounters(poll, named->out, port, at);
  }
  for (auto& [out, port] : entry.ports) {
    if (!port.is_named) SetState(entry.source, out, port, PortState::kUnknown);
  }
  NoteUnmatched(poll, unmatched);
}

void PolledSwitches::HandleFailure(std::size_t poll, const std::string& problem) {
  Source& source = sources_[poll].source;
  ++source.failures;
  source.problem = problem;
  counters_.failures.Add();
}

void PolledSwitches::Tick(TimePoint now) {
  std::size_t silent = 0;
  std::size_t unmatched = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    Entry& entry = sources_[i];
    Source& source = entry.source;
    if (!source.is_silent && now - source.heard >= kSilentIntervals * options_.interval) {
      source.is_silent = true;
      for (auto& [out, port] : entry.ports) {
        port.is_named = false;
        SetState(source, out, port, PortState::kUnknown);
      }
      Log(LogLevel::kWarning, "event=poll_silent node={} target=\"{}\" problem=\"{}\"",
          topology_.node(polls_[i].node).id, Printable(polls_[i].target.Name()),
          Printable(source.problem, 300));
    }
    silent += source.is_silent ? 1 : 0;
    unmatched += source.unmatched.size();
  }
  counters_.silent.Set(static_cast<double>(silent));
  counters_.unmatched.Set(static_cast<double>(unmatched));
  counters_.implausible.Add(static_cast<std::int64_t>(port_counters_.implausible()) -
                            counters_.implausible.Value());
}

std::vector<Collector::Load> PolledSwitches::TakeLoads(const std::vector<Collector::Load>& sflow,
                                                       TimePoint now) {
  std::vector<Collector::Load> loads;
  for (const PortCounters::Load& load : port_counters_.TakeLoads()) {
    if (!topology_.IsFabricLink(load.link.link)) continue;
    loads_at_[load.link.Index()] = now;
    loads.push_back({load.link, load.bps});
  }
  for (const Collector::Load& load : sflow) {
    const auto polled = loads_at_.find(load.link.Index());
    const bool is_polled = polled != loads_at_.end() &&
                           now - polled->second < kSilentIntervals * options_.counters_interval;
    if (!is_polled) loads.push_back(load);
  }
  return loads;
}

std::vector<std::string> PolledSwitches::Missing(std::size_t poll) const {
  std::vector<std::string> missing;
  const auto& ports = sources_[poll].ports;
  for (const DirectedLink out : topology_.Outgoing(polls_[poll].node)) {
    const auto port = ports.find(out.Index());
    if (port == ports.end() || !port->second.is_named) {
      missing.push_back(topology_.DirectionName(out));
    }
  }
  return missing;
}

}  // namespace espalier::telemetry
