#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "agent/flows/flow_meter.h"
#include "common/base/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

struct FlowReporterOptions {
  Duration progress_interval = std::chrono::milliseconds(10);  // at least, between two reports
  // Progress is worth a report when the state has changed, or what remains by more than this
  // part of what was last reported.
  std::uint64_t remaining_change = 16;
  // A flow that moves is told of this often anyway: its rate is news too.
  Duration refresh_interval = std::chrono::seconds(1);
  std::size_t max_flows_per_message = 1024;
};

// The port of a flow, for its opening report.
struct PortInUse {
  std::uint16_t port = 0;
  bool steered = false;  // a controller chose it
  // Where it is split, or the agent drew its port: of all its paths, in order.
  std::vector<std::uint16_t> path_ports;
};

// Turns measures into reports: what was opened and ended since the last report, and what has
// changed enough. Sequence numbers are the sender's business.
//
// A full report is one message whatever its size (all there are: the rest of a full report cannot
// come later), differences are cut to max_flows_per_message rows each.
// Thread safety: one thread. Complexity: linear in the flows.
class FlowReporter {
 public:
  explicit FlowReporter(const FlowReporterOptions& options)
      : options_(options), progress_interval_(options.progress_interval) {}

  // Input: all elephants, ascending by id. No message where there is nothing to say.
  std::vector<wire::FlowReport> ReportChanges(
      TimePoint now, std::span<const FlowMeasure> flows,
      const std::function<PortInUse(const FlowSample&)>& port_in_use);
  wire::FlowReport ReportAll(TimePoint now, std::span<const FlowMeasure> flows,
                             const std::function<PortInUse(const FlowSample&)>& port_in_use);

  // The least time between two reports of progress from now on: at least as configured.
  void SetProgressInterval(Duration interval) {
    progress_interval_ = std::max(interval, options_.progress_interval);
  }

  // Flows that the last report left open.
  std::size_t size() const { return reported_.size(); }

 private:
  struct Reported {
    wire::LocalFlowId id;
    std::uint64_t remaining_bytes;
    wire::FlowState state;
    std::uint64_t achieved_bps;
    TimePoint at;
  };

  static Reported Describe(TimePoint now, const FlowMeasure& flow);
  bool IsWorthReporting(const Reported& before, const Reported& current) const;

  const FlowReporterOptions options_;
  Duration progress_interval_;
  std::vector<Reported> reported_;  // ascending by id
  TimePoint next_progress_{};
};

}  // namespace espalier::agent
