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
  Duration progress_interval = std::chrono::milliseconds(10);  // minimum between two reports
  // Progress is reported when the state has changed, or when the remaining bytes have changed by
  // more than 1/remaining_change of their last reported value.
  std::uint64_t remaining_change = 16;
  // A flow that progresses or changes its rate is reported at least this often.
  Duration refresh_interval = std::chrono::seconds(1);
  std::size_t max_flows_per_message = 1024;
};

// The port of a flow, for the report that it has opened.
struct PortInUse {
  std::uint16_t port = 0;
  bool steered = false;  // a controller chose it
  // The ports of all its paths, in order, if it is split or rerouted locally; else empty.
  std::vector<std::uint16_t> path_ports;
};

// Turns measures into reports of the flows that have opened or ended since the last report and of
// those that have changed enough. The caller assigns sequence numbers.
//
// A full report is one message of any size, as its rest cannot follow later. Reports of changes
// have at most max_flows_per_message rows each.
// Thread safety: one thread. Complexity: linear in the flows.
class FlowReporter {
 public:
  explicit FlowReporter(const FlowReporterOptions& options)
      : options_(options), progress_interval_(options.progress_interval) {}

  // Input: all elephants, ascending by id. Returns no message if nothing has to be reported.
  std::vector<wire::FlowReport> ReportChanges(
      TimePoint now, std::span<const FlowMeasure> flows,
      const std::function<PortInUse(const FlowSample&)>& port_in_use);
  wire::FlowReport ReportAll(TimePoint now, std::span<const FlowMeasure> flows,
                             const std::function<PortInUse(const FlowSample&)>& port_in_use);

  // Sets the minimum time between two reports of progress; the configured one is its lower bound.
  void SetProgressInterval(Duration interval) {
    progress_interval_ = std::max(interval, options_.progress_interval);
  }

  // Number of open flows after the last report.
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
