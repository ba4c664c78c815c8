#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "controller/rounds/burst_log.h"

namespace espalier::controller {

// Finds the groups of flows of one job that send together. The data-, tensor- and pipeline-parallel
// groups of a training job share its NICs and are not in step with each other.
//
// Flows that have NICs in common, directly or by way of others, are a component and one group at
// first. Each group has a leader, one of its flows. A flow whose burst begins together with one of
// its leader's, or as long after it as the burst before did, is in step, unless its leader has sent
// alone meanwhile; one whose bursts lie within those of the leader is not out of step. After
// kMisses bursts out of step, less those in step, the flow is outside: it belongs to no group. It
// joins the group with which its last bursts are in step, the nearest if there are several; if
// there is none, it founds a group, which it leads. A flow that opens in a component of several
// groups is outside at first. A group whose leader is in step with another group's for
// kBurstsToUnite bursts joins that one.
//
// What could prove it wrong: two groups of one period whose bursts begin within half a burst of
// each other, always by the same time, count as one. Irregular flows found groups of their own.
//
// Bounds: kMaxGroups groups; when there are no more, flows that are in step with none stay outside;
// a job with more components counts as one group, for good. O(1) a burst of a flow in a group,
// O(kMaxGroups log kOfLeader) of one that is outside, which is looked at ever less often.
// Thread safety: one thread.
class SenderGroups {
 public:
  using Group = std::uint32_t;
  static constexpr Group kOutside = ~Group{0};
  static constexpr std::size_t kMaxGroups = 32;
  static constexpr int kMisses = 4;
  static constexpr std::size_t kBurstsToJoin = 4;
  static constexpr std::uint32_t kBurstsToFound = 8;
  static constexpr std::uint32_t kBurstsToUnite = 32;
  static constexpr std::size_t kOfFlow = 8;     // bursts kept
  static constexpr std::size_t kOfLeader = 64;  // the same

  // What is known of a flow.
  struct Member {
    std::uint64_t id = 0;  // 0: it has not joined
    Group group = 0;
    Group component = 0;
    BurstLog bursts{kOfFlow};
    std::optional<Duration> offset;  // to the leader's burst, at the last burst beside one
    int misses = 0;                  // less bursts in step
    std::uint32_t outside = 0;       // bursts since it is outside
  };
  // Groups whose flows now belong to another one (from, into), in order.
  using Merged = std::vector<std::pair<Group, Group>>;

  // Puts a flow with these NICs, which has no bytes to send, into its group.
  Merged Join(Member& member, std::span<const std::size_t> nics);
  // The flow is closed, or belongs to another job from now on.
  void Leave(Member& member);

  // What the beginning of a burst has shown.
  struct Begun {
    std::optional<Group> left;     // by the flow, as it is out of step: its rounds were mixed ones
    std::optional<Group> founded;  // by the flow
    Merged merged;
  };
  // The flow has bytes to send. Its group may change with this, and at no other time.
  Begun Begin(Member& member, TimePoint at);
  // It has nothing to send.
  void End(Member& member, TimePoint at);

  // The group into which this one was merged; itself if it was not.
  Group RootOf(Group group) const;
  Group GroupOf(const Member& member) const {
    return member.group == kOutside ? kOutside : RootOf(member.group);
  }
  std::size_t size() const { return groups_.size(); }  // with those that were merged or are empty

 private:
  struct Known {
    Group merged_into = 0;
    Group component = 0;  // the group that its flows were in at first
    std::uint32_t flows = 0;
    std::uint64_t leader = 0;    // 0: none
    BurstLog bursts{kOfLeader};  // the leader's
    bool is_free = false;
    Group beside = 0;           // a group with whose leader this one's is in step,
    std::uint32_t in_step = 0;  // for so many bursts,
    Duration offset{};          // with this offset at first
  };
  Group Add(std::optional<Group> component);
  void Unite(Group from, Group into, Merged& merged);
  bool IsOneOf(Group group, Group component) const;
  void Lead(Known& group, const Member& member);
  void CompareLeaders(Group group, Merged& merged);
  bool IsOutOfStep(Member& member, const Known& group) const;
  std::optional<Group> Find(const Member& member, bool& is_apart) const;
  // Returns the group that a flow outside founds.
  std::optional<Group> Seek(Member& member);

  std::deque<Known> groups_;
  std::unordered_map<std::size_t, Group> of_nic_;
  std::size_t live_ = 0;  // groups that are neither merged nor free
  bool is_one_ = false;   // it had too many components
  std::uint64_t last_id_ = 0;
};

}  // namespace espalier::controller
