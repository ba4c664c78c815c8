#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "common/base/event_loop.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Gives a job to flows that no program has named, as a datapath on a SmartNIC sees them: all such
// flows whose NICs are connected by such flows are one job, because a training job's rings, trees
// and pipelines connect all its NICs. The job is called "~NIC" after the first of its NICs by name.
// Names that programs declare win: their flows do not count here.
//
// Jobs are found anew at most once in kMinInterval, after such flows have opened or ended. Until
// then a flow belongs to the job without a name. Two jobs that share a NIC are one.
// Thread safety: the controller's loop thread. Complexity: Update O(n log n) for n flows in all.
class UnnamedJobs {
 public:
  static constexpr Duration kMinInterval = std::chrono::seconds(1);
  static constexpr char kPrefix = '~';  // reserved: agents cannot report such names

  // `rename` gives a flow to another job.
  UnnamedJobs(State& state, std::function<void(FlowSlot, std::uint32_t job)> rename)
      : state_(state), rename_(std::move(rename)) {}

  // Such a flow has opened, or is about to be closed.
  void NoteChange() { has_changed_ = true; }
  void Update(TimePoint now);

 private:
  State& state_;
  std::function<void(FlowSlot, std::uint32_t job)> rename_;
  bool has_changed_ = false;
  TimePoint next_{};
};

}  // namespace espalier::controller
