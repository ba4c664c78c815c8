#pragma once

#include <cstdint>

#include "agent/flows/flow_source.h"
#include "common/base/time/event_loop.h"

namespace espalier::agent {

struct EdgeFilterOptions {
  // A flow is idle when it has had nothing to send for this long. Shorter pauses are part of its
  // busy phase.
  Duration idle_after = std::chrono::milliseconds(10);
  // A flow with more edges in a second is reported as a duty cycle, until it has at most half as
  // many.
  std::uint32_t max_edges_per_second = 20;
};

// The busy periods of a flow, as they are reported to the controller.
struct Activity {
  std::uint32_t edges = 0;  // since the flow was first seen, never 0 then; odd: busy, even: idle
  TimePoint last_edge;
  // Not 0: it changes too often, counts as busy, and was busy for this part of the last second.
  std::uint16_t duty_permille = 0;
};

// Turns the edges that the source of one flow tells into those that the controller is told: without
// short pauses, and bounded. An idle edge has the time when the flow became idle, which is
// `idle_after` before it is known.
//
// Sources tell whatever programs claim. So only the present state, and the times of the last two
// edges, limited to the possible, have an effect. A count that jumps adds two edges at most.
// Thread safety: none. Complexity: O(1).
class EdgeFilter {
 public:
  // `source.count` is not 0, here and later.
  EdgeFilter(const EdgeFilterOptions& options, TimePoint now, const SourceEdges& source);

  // A time before that of the last call counts as that time.
  void Update(const EdgeFilterOptions& options, TimePoint now, const SourceEdges& source);
  const Activity& activity() const { return activity_; }

 private:
  void Change(const EdgeFilterOptions& options, bool busy, TimePoint at);
  void AddEdge(TimePoint at);
  void EndWindow(const EdgeFilterOptions& options);
  std::uint16_t DutyPermille() const;

  Activity activity_;
  std::uint32_t source_count_;
  TimePoint source_last_;  // as limited to the possible when the edge was seen first
  TimePoint now_;
  bool busy_ = false;     // without short pauses, but with changes that are not told
  TimePoint changed_at_;  // when busy_ last changed
  // The window of one second by which changes and busy times are measured.
  TimePoint window_start_;
  Duration window_busy_{};  // in phases that have ended
  std::uint32_t window_changes_ = 0;
};

}  // namespace espalier::agent
