#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "common/base/time/event_loop.h"
#include "deploy/lab/workload/phase_member.h"
#include "deploy/lab/workload/phase_schedule.h"
#include "deploy/lab/workload/traffic_report.h"

namespace espalier::traffic {

// Plays one host's part in a phased job: computes by the schedule, sends, waits for the others, and
// writes down when each burst began and ended.
// Thread safety: the loop's thread.
class PhasedPart {
 public:
  struct Actions {
    std::function<void(std::uint32_t flow, std::int64_t bytes)> send;
    std::function<void(int step)> arrive;  // at the barrier of the job
    std::function<void()> on_over;
  };
  PhasedPart(EventLoop& loop, const PhaseSchedule& schedule, PhaseMember member, Actions actions);

  void Start();
  // Takes the total bytes of a flow that are acknowledged, and the ports that it uses now.
  void HandleAcknowledged(std::uint32_t flow, std::int64_t total_bytes,
                          std::span<const std::uint16_t> ports);
  // All hosts of the job have ended the step.
  void HandleReleased();
  bool IsOver() const { return member_.IsOver(); }
  // The bursts that have ended.
  const std::vector<BurstTime>& bursts() const { return bursts_; }

 private:
  void BeginIteration();
  void Compute();
  void BeginPhase();
  void ArriveIfDone();
  std::int64_t NowNs() const { return loop_.Now().time_since_epoch().count(); }

  EventLoop& loop_;
  const PhaseSchedule schedule_;
  PhaseMember member_;
  const Actions actions_;
  TimerPtr timer_;
  TimePoint iteration_start_;
  std::int64_t phase_start_ns_ = 0;
  std::vector<BurstTime> bursts_;
};

}  // namespace espalier::traffic
