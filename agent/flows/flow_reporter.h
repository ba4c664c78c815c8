#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "agent/flows/flow_meter.h"
#include "common/base/time/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

struct FlowReporterOptions {
  Duration progress_interval = std::chrono::milliseconds(10);  // minimum between two reports
  // Progress is reported when the state has changed, or when the remaining bytes have changed by
  // more than 1/remaining_change of their last reported value.
  std::uint64_t remaining_change = 16;
  // Edges are reported in this part of the time between two reports of progress.
  int edge_reports = 5;
  // A flow that has become idle is reported this long after its edge, or earlier with another
  // report. No flow waits for it: a planned path is kept, and other paths are sought when flows
  // become busy. It must be shorter than the pauses that end a round of a job (JobRounds::kGap), by
  // the time that a message needs.
  Duration max_idle_report_delay = std::chrono::milliseconds(40);
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
// those that have changed enough. Becoming busy is enough, and does not wait for the next report of
// progress. Becoming idle waits for a report of something else, for max_idle_report_delay at most,
// as it has its time with it. If the flow becomes busy meanwhile, a report of the idle edge goes
// ahead of that of the busy one. Edges of one flow that come faster than reports are one row, and
// an edge that could not be reported is part of the next report. The caller assigns sequence
// numbers.
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
  // Number of rows so far that told of an edge.
  std::uint64_t edge_rows() const { return edge_rows_; }

 private:
  struct Reported {
    wire::LocalFlowId id;
    std::uint64_t remaining_bytes;
    wire::FlowState state;
    std::uint64_t achieved_bps;
    std::uint32_t edges;
    std::uint16_t duty_permille;
    TimePoint at;
  };
  // An idle edge that waits for a report: its row, but for the age.
  struct Waiting {
    wire::FlowProgress row;
    TimePoint edge;
  };

  static Reported Describe(TimePoint now, const FlowMeasure& flow);
  static bool HasEdge(const Reported& before, const Reported& current);
  // Whether the flow has become idle and nothing else, and its report may wait.
  bool MayWait(TimePoint now, const Reported& before, const FlowMeasure& flow) const;
  // What is to be reported of a known flow now. `kWaits`: its idle edge, if there is a report.
  enum class Due { kNothing, kWaits, kEdge, kProgress };
  Due DueAt(TimePoint now, const Reported& before, const FlowMeasure& flow) const;
  // Whether there is anything that does not wait.
  bool HasNews(TimePoint now, std::span<const FlowMeasure> flows) const;
  bool IsWorthReporting(const Reported& before, const Reported& current) const;

  const FlowReporterOptions options_;
  Duration progress_interval_;
  std::vector<Reported> reported_;  // ascending by id
  std::vector<Waiting> waiting_;    // ascending by id
  TimePoint next_progress_{};
  TimePoint next_edges_{};
  std::uint64_t edge_rows_ = 0;
};

}  // namespace espalier::agent
