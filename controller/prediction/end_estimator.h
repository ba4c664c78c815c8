#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/prediction/flow_slot.h"

namespace espalier::controller {

// Forecasts when flows end (Routing for Large ML Models, section 3.4.2). What remains, divided by
// the rate that the present assignment gives the flow, corrected by its observed rate. What remains
// is, in this order:
// 1. the remaining bytes by the host's last report;
// 2. the occupancy of its send queue, if that falls as fast as the flow sends: nothing more is
//    posted. Elsewhere the occupancy only bounds the end from below, as programs post in portions;
// 3. what the flow usually sends in this phase, less what it has sent. If it has sent that, or no
//    rate has been observed in this phase, it ends after the phase's usual duration, or soon if
//    that is over.
// Until a rate is observed, that of earlier phases counts, as programs may be slower than links.
// Without any of these there is no forecast, or the occupancy alone. A host with wrong reports
// affects only the forecasts of its own flows.
//
// Complexity: O(1), but for EndingBy. While that is called often, flows are kept in a heap: Begin
// and End take O(log flows) then, and so does an expected end that moves closer. Deterministic:
// times are arguments, no clock is read. Thread safety: one thread.
class EndEstimator {
 public:
  // `planned_bps`: the rate by water-filling; 0: not known. Ends the flow that was in the slot.
  void Begin(FlowSlot flow, TimePoint now, double planned_bps);
  void SetPlannedRate(FlowSlot flow, double planned_bps);
  // What the flow took in earlier phases like the one that has just begun. `bytes`: 0 if not known.
  // Begin forgets it. Ignored for flows that have not begun, and if the duration is not positive.
  void SetUsualDuration(FlowSlot flow, Duration duration, Duration deviation,
                        std::uint64_t bytes = 0);
  // Ignores reports for flows that have not begun, and reports older than the last one.
  // `remaining_bytes`: 0 if nothing remains or it is not known. `achieved_bps`: as measured by its
  // host; used if two reports do not show a rate. `outstanding_bytes`: posted and not sent.
  void TakeReport(FlowSlot flow, TimePoint now, std::uint64_t remaining_bytes,
                  std::uint64_t achieved_bps, std::uint64_t outstanding_bytes = 0);
  void End(FlowSlot flow);

  // Whether the flow has begun and not ended.
  bool IsLive(FlowSlot flow) const { return flow.Index() < flows_.size() && At(flow).is_live; }

  // Begins to load what the calls for this flow read.
  void Prefetch(FlowSlot flow) const {
    if (flow.Index() >= flows_.size()) return;
    __builtin_prefetch(&At(flow).is_live, 1);
    __builtin_prefetch(&At(flow).place, 1);
  }

  struct Forecast {
    TimePoint expected;
    TimePoint earliest;  // [earliest, latest]: contains four of five ends, by how rates varied
    TimePoint latest;
    double rate_bps = 0;
  };
  // None if nothing remains, no rate is known, or it would take longer than a year.
  std::optional<Forecast> Of(FlowSlot flow) const;
  std::optional<TimePoint> ExpectedEnd(FlowSlot flow) const {  // Forecast::expected
    if (flow.Index() >= flows_.size() || At(flow).place < 0) return std::nullopt;
    return At(flow).expected;
  }
  // The flows expected to end by `until`, ascending by slot. O(result), and O(log flows) for each
  // flow whose expected end has moved beyond `until` since the last call; O(flows) if that was
  // many changes ago.
  std::vector<FlowSlot> EndingBy(TimePoint until);

 private:
  struct Entry {
    bool is_live = false;  // between Begin and End
    bool has_report = false;
    TimePoint reported;
    std::uint64_t remaining_bytes = 0;
    std::uint64_t outstanding_bytes = 0;
    double drain = 0;  // moving average of how fast the occupancy falls, relative to the rate
    double sent_bytes = 0;
    TimePoint begun;
    Duration usual_duration{};  // 0: not known
    Duration usual_deviation{};
    std::uint64_t usual_bytes = 0;
    double planned_bps = 0;
    bool has_rate = false;    // one has been observed
    double correction = 1;    // factor for the planned rate
    double measured_bps = 0;  // used if no rate is planned
    double spread = 0.25;     // mean relative deviation of the rate
    std::int32_t place = -1;  // in heap_; -1: no forecast
    TimePoint expected;
  };
  // Keys are beside the flows, so that comparing them reads nothing else.
  struct Spot {
    TimePoint key;  // at most the flow's expected end
    FlowSlot flow;
    bool operator<(const Spot& other) const {
      return key != other.key ? key < other.key : flow < other.flow;
    }
  };

  Entry& At(FlowSlot flow) { return flows_[flow.Index()]; }
  const Entry& At(FlowSlot flow) const { return flows_[flow.Index()]; }
  static double UsualRate(const Entry& entry);  // of earlier phases; 0: not known
  static double RateOf(const Entry& entry);
  static void LearnRate(Entry& entry, double seen_bps);
  static void LearnOccupancy(Entry& entry, double seconds, double seen_bps,
                             std::uint64_t outstanding_bytes);
  // How long it still takes, from the last report on.
  struct Rest {
    double seconds = 0;
    double deviation_seconds = -1;  // negative: by how the rate varies
  };
  static std::optional<Rest> RestOf(const Entry& entry);
  void Update(FlowSlot flow);
  // Corrects the key there, which may be too early.
  void MoveToExpected(std::size_t place);
  void Put(std::size_t place, const Spot& spot);
  void SiftUp(std::size_t place);
  void SiftDown(std::size_t place);
  void RemoveFromHeap(FlowSlot flow);

  // Notes a change of the heap, which is given up after many that nobody has asked about.
  void NoteChange();
  void MakeHeap();

  std::vector<Entry> flows_;  // by slot
  std::vector<Spot> heap_;    // in any order and with any keys while it is none
  bool is_heap_ = false;
  std::size_t changes_ = 0;  // of the heap since EndingBy
};

}  // namespace espalier::controller
