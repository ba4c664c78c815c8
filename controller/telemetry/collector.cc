#include "controller/telemetry/collector.h"

#include <optional>
#include <utility>

#include "controller/telemetry/packet_key.h"

namespace espalier::telemetry {

using fabric::DirectedLink;

Collector::Counters::Counters(Metrics& metrics)
    : datagrams(metrics.MakeCounter("espalier_telemetry_datagrams_total",
                                    "sFlow datagrams that listed switches sent")),
      malformed(metrics.MakeCounter("espalier_telemetry_datagrams_malformed_total",
                                    "Datagrams that are no sFlow version 5, or are cut")),
      strangers(metrics.MakeCounter("espalier_telemetry_datagrams_strange_total",
                                    "Datagrams from addresses or agents that are not listed, or "
                                    "from too many sub-agents")),
      repeated(metrics.MakeCounter("espalier_telemetry_datagrams_repeated_total",
                                   "Datagrams with a sequence number that was received before")),
      late(metrics.MakeCounter("espalier_telemetry_datagrams_late_total",
                               "Datagrams that arrived too late to be used")),
      samples(metrics.MakeCounter("espalier_telemetry_samples_total",
                                  "Packet samples that were assigned to a link")),
      unmapped(metrics.MakeCounter("espalier_telemetry_samples_unmapped_total",
                                   "Packet samples whose input port stands for no known link")),
      unread(metrics.MakeCounter("espalier_telemetry_samples_unread_total",
                                 "Packet samples without IP addresses or ports in their header")),
      counter_samples(metrics.MakeCounter("espalier_telemetry_counter_samples_total",
                                          "Counter samples that were assigned to a link")),
      left_out(metrics.MakeCounter("espalier_telemetry_samples_left_out_total",
                                   "Packet samples of flows for which there was no room")),
      implausible(metrics.MakeCounter("espalier_telemetry_counters_implausible_total",
                                      "Pairs of counter samples that cannot be true")),
      lost(metrics.MakeGauge("espalier_telemetry_datagrams_lost",
                             "Datagrams that did not arrive, by gaps of sequence numbers")),
      silent(metrics.MakeGauge("espalier_telemetry_exporters_silent",
                               "Listed switches from which nothing arrived for 30 s")),
      policed(metrics.MakeGauge("espalier_telemetry_ports_policed",
                                "Ports whose switch sends fewer than 80 % of the samples that "
                                "their packets would make")),
      flows(metrics.MakeGauge("espalier_telemetry_flows", "Flows of which packets were sampled")) {}

Collector::Collector(const fabric::Topology& topology, std::vector<Exporter> exporters,
                     const Options& options, Metrics& metrics)
    : topology_(topology),
      exporters_(std::move(exporters)),
      ports_(topology, exporters_.list()),
      port_counters_(topology),
      link_samples_(topology),
      flows_(options.most_flows, options.seed),
      counters_(metrics) {}

bool Collector::Admit(const IpAddress& source, TimePoint now, std::size_t& exporter) {
  const Exporters::Judged judged = exporters_.Judge(source, datagram_, now);
  exporter = judged.exporter;
  switch (judged.verdict) {
    case Exporters::Verdict::kTakeRestarted:
      ports_.HandleRestart(exporter);
      port_counters_.HandleRestart(exporter);
      break;
    case Exporters::Verdict::kTake:
      break;
    case Exporters::Verdict::kRepeated:
      counters_.repeated.Add();
      return false;
    case Exporters::Verdict::kLate:
      counters_.late.Add();
      return false;
    case Exporters::Verdict::kStranger:
    case Exporters::Verdict::kTooManySubAgents:
      counters_.strangers.Add();
      return false;
  }
  counters_.datagrams.Add();
  return true;
}

void Collector::HandleDatagram(const IpAddress& source, std::span<const std::uint8_t> bytes,
                               TimePoint now) {
  if (datagram_.Parse(bytes) != nullptr) return counters_.malformed.Add();
  std::size_t exporter = 0;
  if (!Admit(source, now, exporter)) return;
  for (const SflowFlowSample& sample : datagram_.flows) HandleFlow(exporter, sample, now);
  for (const SflowCounterSample& sample : datagram_.counters) HandleCounters(exporter, sample, now);
}

void Collector::HandleFlow(std::size_t exporter, const SflowFlowSample& sample, TimePoint now) {
  const bool has_input = sample.input.kind == SflowInterface::Kind::kIndex;
  const std::optional<DirectedLink> out =
      has_input ? ports_.Out(exporter, sample.input.index) : std::nullopt;
  if (!out || topology_.link(out->link).directed) {
    ++unmapped_;
    return counters_.unmapped.Add();
  }
  counters_.samples.Add();
  port_counters_.CountSample(*out, sample.rate);
  const DirectedLink in{out->link, !out->forward};
  const double weight = sample.rate * port_counters_.UnderSampling(*out);
  const std::optional<SampledPacket> packet = ReadSampledPacket(sample);
  const std::uint32_t frame_bytes = packet ? packet->frame_bytes : sample.frame_bytes;
  link_samples_.Add(in, frame_bytes, weight, now);
  if (!packet) return counters_.unread.Add();
  flows_.Add(*packet, in, weight, now);
}

void Collector::HandleCounters(std::size_t exporter, const SflowCounterSample& sample,
                               TimePoint now) {
  const std::uint32_t index = sample.interface ? sample.interface->index : sample.source_index;
  if (!sample.port_name.empty()) ports_.HandleName(exporter, index, sample.port_name);
  if (!sample.interface) return;
  const std::optional<DirectedLink> out = ports_.Out(exporter, index);
  if (!out) return;
  counters_.counter_samples.Add();
  port_counters_.Handle(*out, *sample.interface,
                        {.exporter = exporter, .uptime_ms = datagram_.uptime_ms, .at = now});
}

void Collector::Tick(TimePoint now) {
  flows_.Tick(now);
  const auto difference = [](std::uint64_t total, const Counter& counter) {
    return static_cast<std::int64_t>(total) - counter.Value();
  };
  counters_.left_out.Add(difference(flows_.left_out(), counters_.left_out));
  counters_.implausible.Add(difference(port_counters_.implausible(), counters_.implausible));
  std::uint64_t lost = 0;
  std::size_t silent = 0;
  for (std::size_t i = 0; i < exporters_.list().size(); ++i) {
    lost += exporters_.StateOf(i).lost;
    silent += exporters_.StateOf(i).IsSilent(now) ? 1 : 0;
  }
  counters_.lost.Set(static_cast<double>(lost));
  counters_.silent.Set(static_cast<double>(silent));
  counters_.policed.Set(static_cast<double>(port_counters_.policed()));
  counters_.flows.Set(static_cast<double>(flows_.size()));
}

std::vector<Collector::Load> Collector::TakeLoads(TimePoint now) {
  std::vector<Load> loads;
  const auto take = [&](DirectedLink link, double bps) {
    if (topology_.IsFabricLink(link.link)) loads.push_back({link, bps});
  };
  for (const PortCounters::Load& load : port_counters_.TakeLoads()) {
    link_samples_.HandleCounters(load.link, now);
    take(load.link, load.bps);
  }
  for (const LinkSamples::Load& load : link_samples_.TakeLoads(now)) take(load.link, load.bps);
  return loads;
}

}  // namespace espalier::telemetry
