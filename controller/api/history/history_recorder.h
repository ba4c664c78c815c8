#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "controller/api/views/flow_statistics.h"
#include "controller/controller.h"
#include "controller/history/fabric_history.h"

namespace espalier::controller {

// Takes a sample of the controller's state for the history every second: of links, of the jobs with
// the most flows, of the slowest flows, and of the fabric.
//
// The state is scanned in slices of some hundred flows and forest edges, between which the loop
// does its other work; a last slice visits links and hosts. If all slices of a sample take more
// than a fiftieth of a second, samples become rarer. The lower bound of the load, which takes as
// long as the rest, is computed for every tenth sample, and where a load is above the last bound.
// Thread safety: the controller's loop thread. The controller must outlive this.
class HistoryRecorder {
 public:
  static constexpr std::size_t kFlowsPerSlice = 512;
  static constexpr Duration kInterval = FabricHistory::kResolutions[0].step;
  // The lower bound of the load is that of so many samples ago at most, if no load is above it.
  static constexpr int kSamplesPerBound = 10;

  // `budget`: bytes of memory for the history; 0 records nothing.
  HistoryRecorder(Controller& controller, Metrics& metrics, std::size_t budget);

  const FabricHistory& history() const { return history_; }

 private:
  // One pass over the state.
  struct Scan {
    explicit Scan(const State& state)
        : slots(state.flows.All()), statistics(state), slowest(FabricHistory::kMostFlows) {}
    std::vector<FlowSlot> slots;
    std::size_t next = 0;  // of slots
    EdgeName last_edge;    // the last edge that was scanned
    bool has_all = false;
    FlowStatistics statistics;
    SlowestFlows slowest;  // their jobs by FlowTable::JobName
    ReachCounts reach;
    Duration spent{};
  };

  void Begin();
  void Continue();
  void ScanSlice();
  void Count(const ShownFlow& flow);
  void Finish();
  void RecordLinks(FabricRecord& fabric);
  void RecordJobs(FabricRecord& fabric);
  void RecordFlows();
  void RecordHealth(FabricRecord& fabric) const;
  // Adds the rounds of a job that ended since the sample before.
  void AddRounds(JobRecord& record, FabricRecord& fabric, std::uint32_t job) const;
  void CountHappened(FabricRecord& fabric);

  Controller& controller_;
  EventLoop& loop_;
  const std::size_t budget_;
  FabricHistory history_;
  Gauge& bytes_;
  LatencyHistogram& slice_seconds_;
  std::unique_ptr<Scan> scan_;
  TimerPtr timer_;
  TimePoint previous_;   // when the sample before was taken
  int until_bound_ = 0;  // samples
  float fair_load_ = 0;
  std::uint64_t last_push_ = 0;   // PushedPath::sequence
  std::uint64_t last_event_ = 0;  // HistoryEvent::sequence
  std::vector<LinkRecord> links_;
  std::vector<JobRecord> jobs_;
  std::vector<FlowRecord> flows_;
  std::set<std::uint32_t> recorded_;  // jobs of the sample before, by FlowTable::JobName
};

}  // namespace espalier::controller
