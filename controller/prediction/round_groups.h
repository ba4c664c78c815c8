#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/strong_id.h"
#include "common/base/time/event_loop.h"
#include "controller/prediction/common_rounds.h"
#include "controller/prediction/flow_slot.h"

namespace espalier::controller {

// Finds the groups of flows that become busy in common rounds (CompareRounds), among flows that are
// connected: several jobs that share a host are connected, and are one group each.
//
// Each group has a first flow, with which others are compared: one that starts seldom. A flow joins
// a group with which it has common rounds. A regular flow founds a group if its component has none,
// or if it is apart from all of them in four looks in a row. A flow changes its group only if it is
// apart from its own in two looks in a row. So a group lasts until its last flow is closed, and
// without clear evidence nothing changes. Flows with few starts are in no group.
//
// Groups of a component have different numbers, from 1; a group keeps its number as long as no
// older group with the same one is connected to it. Groups that were never compared because they
// were not connected become one when they are, unless they are apart.
//
// Bounds: kMaxFlows flows are followed, at most kMaxFlowsOfHost of one host; kMaxGroups groups are
// founded in a component, and compared with; kMaxComparisons comparisons for each Look, of some
// 40 us each at most. Flows that start often are looked at last, as they lose least by waiting.
// Thread safety: one thread.
class RoundGroups {
 public:
  static constexpr std::size_t kMaxFlows = 8'192;
  static constexpr std::size_t kMaxFlowsOfHost = 1'024;
  static constexpr std::size_t kMaxGroups = 8;
  static constexpr std::size_t kMaxComparisons = 64;
  static constexpr std::size_t kStartsKept = 512;  // 256 after it was reached

  using Group = StrongId<struct RoundGroupTag, std::uint32_t>;

  // The flow becomes busy. O(1). `host`: a dense number of the host that says so.
  void HandleStart(FlowSlot flow, std::uint32_t host, TimePoint at);
  // The flow is closed.
  void Forget(FlowSlot flow);

  // A flow, and which flows are connected with it: those of the same component.
  struct Member {
    FlowSlot flow;
    std::uint32_t component = 0;
  };
  // Looks at all flows that have enough new starts. True: flows have changed their groups, or
  // groups their numbers.
  bool Look(std::span<const Member> members);

  // None: not known.
  std::optional<Group> GroupOf(FlowSlot flow) const;
  std::uint32_t NumberOf(Group group) const { return groups_.at(group).number; }
  // So far: comparisons, and groups that were founded because they are apart from others.
  std::uint64_t comparisons() const { return comparisons_; }
  std::uint64_t splits() const { return splits_; }

 private:
  struct Followed {
    std::uint32_t host = 0;
    std::vector<TimePoint> starts;  // ascending
    std::size_t new_starts = 0;     // since it was looked at
    std::optional<Group> group;
    int looks_apart = 0;  // in a row
  };
  struct Known {
    std::optional<FlowSlot> first;  // with which others are compared; none: it was closed
    std::size_t flows = 0;
    std::uint32_t number = 1;
    std::vector<Group> apart;  // older groups from which it was told apart
  };
  using Component = std::vector<Group>;  // its groups, the oldest first

  std::map<std::uint32_t, Component> ComponentsOf(std::span<const Member> members);
  // Unites groups that are not apart but were never compared. True: it has.
  bool Unite(Component& component, std::uint64_t limit);
  // Gives groups of the same number other ones. True: it has.
  bool Number(const Component& component);
  // True: the flow has changed its group.
  bool LookAt(FlowSlot slot, Component& component);
  void PreferAsFirst(FlowSlot slot, Group group);
  Rounds Compare(FlowSlot slot, Group group);
  void Join(FlowSlot slot, Followed& flow, Group group);
  void Leave(Followed& flow, FlowSlot slot);

  std::unordered_map<FlowSlot, Followed> flows_;
  std::unordered_map<std::uint32_t, std::size_t> of_host_;  // flows followed
  std::map<Group, Known> groups_;                           // the oldest first
  std::uint32_t next_ = 0;
  std::uint64_t comparisons_ = 0;
  std::uint64_t splits_ = 0;
};

}  // namespace espalier::controller
