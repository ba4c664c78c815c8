#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "agent/flows/flow_meter.h"
#include "agent/flows/port_table.h"
#include "common/base/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

// Counters of the device of a NIC, of all its flows together.
struct DeviceCounters {
  std::uint32_t out_of_sequence = 0;  // packets that it sent and peers received out of sequence
  std::uint32_t congestion = 0;       // congestion notifications (CNP) that it received
};

struct PathSamplerOptions {
  Duration interval = std::chrono::milliseconds(500);
  // Reads the counters of the device with this address. Not set: zeros.
  std::function<DeviceCounters(const IpAddress& source)> read_device;
};

// Measures the paths of this host's elephants for the controller, which compares them with those of
// other hosts: rate, retransmissions and round-trip time of each path that had something to send
// for the whole measurement. A path of a split flow is measured if the source sees its subflows.
// Thread safety: the agent's loop thread. Complexity: linear in the elephants, once an interval.
class PathSampler {
 public:
  using OnSample = std::function<void(const wire::PathHealth&)>;

  PathSampler(PathSamplerOptions options, const PortTable& ports, OnSample on_sample);

  // Input: all elephants, ascending by id.
  void HandleMeasures(TimePoint now, std::span<const FlowMeasure> flows);

 private:
  // A path at the last measurement.
  struct Before {
    wire::LocalFlowId flow;
    std::uint16_t port = 0;
    std::uint64_t sent_bytes = 0;
    bool was_busy = false;
  };

  void SampleSplit(const FlowMeasure& flow, const wire::PathSet& set, double seconds);
  const Before* FindBefore(wire::LocalFlowId flow, std::uint16_t port) const;

  const PathSamplerOptions options_;
  const PortTable& ports_;
  const OnSample on_sample_;
  std::optional<TimePoint> last_;
  std::vector<Before> before_;  // of split flows, by flow and port
  std::vector<Before> present_;
  wire::PathHealth health_;
};

}  // namespace espalier::agent
