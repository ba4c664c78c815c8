#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "agent/flows/flow_actuator.h"
#include "agent/flows/flow_source.h"
#include "common/base/time/event_loop.h"

namespace espalier::agent {

struct FlowGroupsOptions {
  // Queue pairs that open this soon after each other are grouped together, as programs open them in
  // bursts. A program that goes on opening them is waited for no longer than `max_settle`.
  Duration settle = std::chrono::milliseconds(20);
  Duration max_settle = std::chrono::milliseconds(200);
  std::size_t max_members = 16;  // as many paths as a flow can have; further pairs form new groups
};

// Makes the queue pairs of one program from one NIC to one NIC one flow, with a subflow for each.
//
// Libraries open several queue pairs for one connection (NCCL_IB_QPS_PER_CONNECTION, the channels
// of NCCL, the lanes of UCX) and spread each message over them. Reported one by one, they would
// count as so many whole flows. A group is reported as one flow whose bytes are those of all its
// members. The paths that the controller chooses for it are given to the members, one each, so that
// the members are on different paths where there are any. A member that has the port of one of the
// paths keeps it.
//
// When members join, the group is reported as a new flow that has all ports of the old one, so that
// nothing moves. When a member ends, the others go on as they are. Flows that are no queue pairs,
// cannot be moved, are split already, or are to stay alone pass through unchanged.
//
// The source and the actuator must outlive it. Complexity: Flows O(flows log flows).
// Thread safety: the agent's loop thread.
class FlowGroups : public FlowSource, public FlowActuator {
 public:
  FlowGroups(EventLoop& loop, FlowSource& source, FlowActuator& actuator,
             FlowGroupsOptions options = {})
      : loop_(loop), source_(source), actuator_(actuator), options_(options) {}

  std::span<const FlowSample> Flows() override;
  void OnChange(std::function<void()> callback) override;
  Result<void> Apply(const wire::PathSet& paths) override;
  Result<void> Clear(wire::LocalFlowId flow) override;

  // The members of a reported flow, in the order of its subflows; itself if it is no group.
  std::vector<wire::LocalFlowId> MembersOf(wire::LocalFlowId flow) const;

 private:
  // A program (the upper half of its flows' ids), its job, and both NICs.
  using Key =
      std::tuple<std::uint64_t, std::string, IpAddress, IpAddress, std::uint8_t, std::uint16_t>;
  struct Member {
    wire::LocalFlowId id;
    std::uint16_t port = 0;  // that was applied; 0: none
    std::uint64_t sent_bytes = 0;
    std::uint32_t retries = 0;
  };
  struct Group {
    wire::LocalFlowId id;  // of the latest member when it was formed
    std::vector<Member> members;
    std::size_t size_when_formed = 0;
    std::uint64_t departed_sent_bytes = 0;  // of members that have ended
    std::uint32_t departed_retries = 0;
    bool has_paths = false;  // it was given paths since it was formed
    SourceEdges edges;
    std::uint64_t member_edges = 0;  // sum of its members' counts at the last look
  };
  struct Pending {
    std::vector<wire::LocalFlowId> flows;  // not yet in a group
    TimePoint first{};
    TimePoint latest{};
  };
  struct Place {  // of a key: its groups, and queue pairs that are about to join one
    std::vector<Group> groups;
    Pending pending;
  };

  static Key KeyOf(const FlowSample& flow);
  static bool IsGrouped(const FlowSample& flow);
  void Update(Place& place, std::span<const FlowSample* const> flows);
  void Form(Place& place);
  void RemoveEnded(Place& place, std::span<const FlowSample* const> flows);
  // The edges of the group: it is busy while a member is. None if a member tells none.
  static void UpdateEdges(Group& group, std::span<const SourceEdges> members);
  static FlowSample Combine(Group& group, std::span<const FlowSample* const> flows);
  Group* Find(wire::LocalFlowId flow);
  void ScheduleChange(Duration after);

  EventLoop& loop_;
  FlowSource& source_;
  FlowActuator& actuator_;
  const FlowGroupsOptions options_;
  std::map<Key, Place> places_;
  std::map<wire::LocalFlowId, Key> keys_;  // of all groups, by their ids
  std::vector<FlowSample> samples_;
  std::function<void()> on_change_;
  TimerPtr change_;
};

}  // namespace espalier::agent
