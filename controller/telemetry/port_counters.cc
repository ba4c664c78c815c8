#include "controller/telemetry/port_counters.h"

#include <algorithm>
#include <cmath>

namespace espalier::telemetry {

using fabric::DirectedLink;

namespace {

constexpr std::uint64_t kUnknownOctets = ~std::uint64_t{0};
constexpr Duration kLeastSpan = std::chrono::milliseconds(200);
constexpr Duration kGreatestSpan = std::chrono::minutes(10);
constexpr Duration kClockSlack = std::chrono::milliseconds(1'100);  // uptimes in whole seconds
constexpr double kLeastExpected = 50;
constexpr double kEnough = 0.8;

std::optional<double> Difference(std::uint64_t before, std::uint64_t now) {
  if (before == kUnknownOctets || now == kUnknownOctets || now < before) return std::nullopt;
  return static_cast<double>(now - before);
}

}  // namespace

void PortCounters::NoteLoad(const Load& load, double port_bps, bool is_sender) {
  const auto rate = static_cast<double>(topology_.link(load.link.link).rate.value);
  if (load.bps > (port_bps > 0 ? std::min(rate, port_bps) : rate) * 1.1) {
    ++implausible_;
    return;
  }
  const auto [known, is_new] = loads_.try_emplace(load.link.Index(), load, is_sender);
  if (!is_new && (is_sender || !known->second.second)) known->second = {load, is_sender};
}

void PortCounters::CompareSamples(Port& port, const SflowCounterSample::Interface& counters) const {
  if (!port.last.in_packets || !counters.in_packets || port.rate == 0) return;
  const std::uint32_t packets = *counters.in_packets - *port.last.in_packets;  // modulo 2^32
  const double expected = static_cast<double>(packets) / port.rate;
  if (expected < kLeastExpected) return;
  const auto came = static_cast<double>(std::max<std::uint64_t>(port.samples, 1));
  port.under_sampling = came < kEnough * expected ? expected / came : 1;
}

void PortCounters::Handle(DirectedLink out, const SflowCounterSample::Interface& counters,
                          const Arrival& arrival) {
  Port& port = ports_[out.Index()];
  const Duration by_us = arrival.at - port.at;
  const Duration by_switch = std::chrono::milliseconds(arrival.uptime_ms - port.uptime_ms);
  const Duration apart = by_us < by_switch ? by_switch - by_us : by_us - by_switch;
  const bool agrees = apart <= by_us / 5 + kClockSlack;
  // Whole seconds of uptime say less than our clock over a short time.
  const Duration span = apart <= kClockSlack ? by_us : by_switch;
  if (port.has_last && by_us < kLeastSpan) return;  // the pair would be too short: wait
  if (port.has_last && agrees && span <= kGreatestSpan) {
    const bool is_both_ways = !topology_.link(out.link).directed;
    const auto load_of = [&](DirectedLink link, double octets) {
      return Load{link, octets * 8 / SecondsOf(span), span};
    };
    if (const auto octets = Difference(port.last.out_octets, counters.out_octets))
      NoteLoad(load_of(out, *octets), arrival.port_bps, true);
    const auto octets = Difference(port.last.in_octets, counters.in_octets);
    if (octets && is_both_ways)
      NoteLoad(load_of({out.link, !out.forward}, *octets), arrival.port_bps, false);
    CompareSamples(port, counters);
  } else if (port.has_last) {
    ++implausible_;
  }
  port.exporter = arrival.exporter;
  port.last = counters;
  port.uptime_ms = arrival.uptime_ms;
  port.at = arrival.at;
  port.has_last = true;
  port.samples = 0;
}

void PortCounters::CountSample(DirectedLink out, std::uint32_t rate) {
  Port& port = ports_[out.Index()];
  // Switches may change the rate by themselves: the samples of a span must be of one.
  if (port.rate != rate) port.has_last = false;
  port.rate = rate;
  ++port.samples;
}

void PortCounters::HandleRestart(std::size_t exporter) {
  std::erase_if(ports_, [&](const auto& port) { return port.second.exporter == exporter; });
}

std::vector<PortCounters::Load> PortCounters::TakeLoads() {
  std::vector<Load> taken;
  for (const auto& [index, load] : loads_) taken.push_back(load.first);
  loads_.clear();
  return taken;
}

double PortCounters::UnderSampling(DirectedLink out) const {
  const auto found = ports_.find(out.Index());
  return found == ports_.end() ? 1 : found->second.under_sampling;
}

std::size_t PortCounters::policed() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      ports_, [](const auto& port) { return port.second.under_sampling > 1; }));
}

}  // namespace espalier::telemetry
