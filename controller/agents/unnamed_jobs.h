#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/prediction/round_groups.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Gives a job to flows that no program has named, as a datapath on a SmartNIC sees them. All such
// flows whose NICs are connected by such flows are one job, because a training job's rings, trees
// and pipelines connect all its NICs; unless some of them become busy in rounds of their own, as
// two jobs on one host do (RoundGroups). The job is called "~NIC" after the first of its NICs by
// name. Further jobs of the same connected NICs are called "~NIC~2", "~NIC~3" and so on. A flow
// whose rounds are not known belongs to the oldest job at both its NICs, else at one of them, else
// of those connected. Names that programs declare win: their flows do not count here.
//
// Jobs are found again at most once in kMinInterval, after such flows have opened, become busy or
// ended. Until then a new flow belongs to the job without a name.
// Thread safety: the controller's loop thread. Complexity: Update O(n log n) for n flows in all, if
// any opened or ended or changed their group, else that of RoundGroups::Look.
class UnnamedJobs {
 public:
  static constexpr Duration kMinInterval = std::chrono::seconds(1);
  static constexpr char kPrefix = '~';  // reserved: agents cannot report such names

  // `rename` gives a flow to another job.
  UnnamedJobs(State& state, std::function<void(FlowSlot, std::uint32_t job)> rename)
      : state_(state), rename_(std::move(rename)) {}

  // Such a flow has opened.
  void HandleOpened() { has_changed_ = true; }
  // These open flows have become busy or idle, or have more to send; those with a job name do not
  // count. O(1) each.
  void HandleChanges(std::span<const MessageChange> changes);
  // Such a flow is about to be closed.
  void HandleClosed(FlowSlot slot);
  void Update(TimePoint now);

 private:
  void FindComponents();
  void Rename();
  // The group of a flow, also if its own rounds are not known; none: no group is known.
  using Group = RoundGroups::Group;
  using GroupsAt = std::map<fabric::NodeId, std::set<Group>>;
  std::optional<Group> GroupOf(FlowSlot slot, const std::set<Group>& of_component,
                               const GroupsAt& at_nics) const;

  State& state_;
  std::function<void(FlowSlot, std::uint32_t job)> rename_;
  RoundGroups groups_;
  std::vector<RoundGroups::Member> members_;  // such flows, with the first NICs they connect to
  std::vector<std::string> names_;            // of NICs, in their order
  bool has_changed_ = false;
  bool has_starts_ = false;
  std::uint64_t splits_told_ = 0;
  TimePoint next_{};
};

}  // namespace espalier::controller
