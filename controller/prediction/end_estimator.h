#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/event_loop.h"
#include "controller/prediction/flow_slot.h"

namespace espalier::controller {

// When live flows end (Routing for Large ML Models, section 3.4.2): what a flow has left by its
// host's last report, over the rate that the present assignment gives it, corrected by the rate
// that it was seen to have. A host that reports nonsense spoils the forecasts of its own flows.
//
// Complexity: by an indexed heap in which a flow whose end moves off stays where it is until
// somebody looks that far: Begin and End O(log flows), TakeReport and SetPlannedRate O(1) unless
// the end comes nearer (then O(log flows)). Deterministic; times are given, no clock is read.
// Thread safety: one thread.
class EndEstimator {
 public:
  // `planned_bps`: what water-filling gives it; 0: not known. Ends what the slot stood for.
  void Begin(FlowSlot flow, TimePoint now, double planned_bps);
  void SetPlannedRate(FlowSlot flow, double planned_bps);
  // Reports of flows that have not begun are ignored, and so are earlier times than the last one's.
  // `achieved_bps`: as its host measured it; used where two reports do not show a rate.
  void TakeReport(FlowSlot flow, TimePoint now, std::uint64_t remaining_bytes,
                  std::uint64_t achieved_bps);
  void End(FlowSlot flow);

  struct Forecast {
    TimePoint expected;
    TimePoint earliest;  // the interval that four of five ends fall into, by how rates varied
    TimePoint latest;
    double rate_bps = 0;
  };
  // None where nothing remains, no rate is known, or it would take longer than a year.
  std::optional<Forecast> Of(FlowSlot flow) const;
  std::optional<TimePoint> ExpectedEnd(FlowSlot flow) const {  // of the forecast
    if (flow.Index() >= flows_.size() || At(flow).place < 0) return std::nullopt;
    return At(flow).expected;
  }
  // The flow that is expected to end first of those with a forecast; the lowest slot of equals.
  std::optional<FlowSlot> Soonest();
  // Flows with a forecast of at most `until`, ascending by slot. O(those, and log flows for each
  // that has moved off beyond `until` since the last call).
  std::vector<FlowSlot> EndingBy(TimePoint until);

 private:
  struct Entry {
    bool is_live = false;
    bool has_report = false;
    TimePoint reported;
    std::uint64_t remaining_bytes = 0;
    double planned_bps = 0;
    double correction = 1;    // of the planned rate
    double measured_bps = 0;  // where no rate is planned
    double spread = 0.25;     // mean relative deviation of the rate
    std::int32_t place = -1;  // in heap_; -1: no forecast
    TimePoint expected;
    TimePoint key;  // in heap_: `expected` as it was when it was last put in place, or nearer
  };

  Entry& At(FlowSlot flow) { return flows_[flow.Index()]; }
  const Entry& At(FlowSlot flow) const { return flows_[flow.Index()]; }
  static double RateOf(const Entry& entry);
  static void LearnRate(Entry& entry, double seen_bps);
  bool IsBefore(FlowSlot a, FlowSlot b) const;
  void Update(FlowSlot flow);
  void MoveToExpected(FlowSlot flow);
  void Put(std::size_t place, FlowSlot flow);
  void SiftUp(std::size_t place);
  void SiftDown(std::size_t place);
  void RemoveFromHeap(FlowSlot flow);

  std::vector<Entry> flows_;  // by slot
  std::vector<FlowSlot> heap_;
};

}  // namespace espalier::controller
