#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/telemetry/exporters.h"
#include "controller/telemetry/link_samples.h"
#include "controller/telemetry/port_counters.h"
#include "controller/telemetry/sampled_flows.h"
#include "controller/telemetry/sflow.h"
#include "controller/telemetry/switch_ports.h"

namespace espalier::telemetry {

// What the sFlow datagrams of a fabric's switches tell: loads of links, and which flows cross them.
//
// Only the input interface of a sample counts: most switches do not know the output where they
// sample. A packet that crosses several switches is sampled by each of them independently, so
// samples are never added across switches.
//
// Thread safety: one thread. Memory: O(ports + most_flows). The topology must outlive it.
class Collector {
 public:
  struct Options {
    std::size_t most_flows = 131'072;
    std::uint64_t seed = 0;  // unpredictable
  };
  Collector(const fabric::Topology& topology, std::vector<Exporter> exporters,
            const Options& options, Metrics& metrics);

  // Takes a datagram as a whole or not at all. Complexity: O(its bytes).
  void HandleDatagram(const IpAddress& source, std::span<const std::uint8_t> bytes, TimePoint now);
  // To be called at least once a second.
  void Tick(TimePoint now);

  struct Load {
    fabric::DirectedLink link;
    double bps = 0;
  };
  // The loads that were measured since the last call, of links between switches.
  std::vector<Load> TakeLoads(TimePoint now);

  const fabric::Topology& topology() const { return topology_; }
  const Exporters& exporters() const { return exporters_; }
  const SwitchPorts& ports() const { return ports_; }
  const SampledFlows& flows() const { return flows_; }
  std::uint64_t unmapped() const { return unmapped_; }

 private:
  struct Counters {
    explicit Counters(Metrics& metrics);
    Counter& datagrams;
    Counter& malformed;
    Counter& strangers;
    Counter& repeated;
    Counter& late;
    Counter& samples;
    Counter& unmapped;
    Counter& unread;
    Counter& counter_samples;
    Counter& left_out;
    Counter& implausible;
    Gauge& lost;
    Gauge& silent;
    Gauge& policed;
    Gauge& flows;
  };

  bool Admit(const IpAddress& source, TimePoint now, std::size_t& exporter);
  void HandleFlow(std::size_t exporter, const SflowFlowSample& sample, TimePoint now);
  void HandleCounters(std::size_t exporter, const SflowCounterSample& sample, TimePoint now);

  const fabric::Topology& topology_;
  Exporters exporters_;
  SwitchPorts ports_;
  PortCounters port_counters_;
  LinkSamples link_samples_;
  SampledFlows flows_;
  SflowDatagram datagram_;  // its memory is used again
  std::uint64_t unmapped_ = 0;
  Counters counters_;
};

}  // namespace espalier::telemetry
