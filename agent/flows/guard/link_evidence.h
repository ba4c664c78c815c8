#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agent/flows/flow_meter.h"
#include "common/base/time/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

// Which links may be dead, by what the probes of all flows of the host have shown, which cross all
// links of their paths. Only probes count: programs can claim neither that a link is dead nor that
// it is alive.
//
// One of the links of a dead path is dead, and those of a path that answers are not. What is left
// of a dead path are its suspects. A path that has all suspects of a dead path has the dead link
// itself. A path that has some of them may have it.
//
// Evidence is forgotten after kMemory, when all suspects have been crossed by probes that were
// answered, and when another controller numbers the links.
// Thread safety: the agent's loop thread. Complexity: O(kMostPaths x links of the path squared).
class LinkEvidence {
 public:
  static constexpr Duration kMemory = std::chrono::seconds(3);
  // Dead paths that are remembered. A host has few links to its switches, so their suspects soon
  // coincide. The oldest is forgotten first.
  static constexpr std::size_t kMostPaths = 16;

  // Probes of the path stayed unanswered, while those of others were answered.
  void HandleDead(TimePoint now, const wire::FlowPath& path);
  // A probe of the path was answered.
  void HandleAnswered(const wire::FlowPath& path);
  // What a check has shown of these paths: the ports whose probes were answered, and those that are
  // dead by their silence.
  void HandleProbes(TimePoint now, std::span<const wire::FlowPath> paths,
                    std::span<const std::uint16_t> answered, std::span<const std::uint16_t> dead);
  // The numbers of links are those of this epoch.
  void HandleLook(TimePoint now, std::uint64_t epoch);

  bool empty() const { return dead_paths_.empty(); }
  // Whether the path has a link that is dead by this evidence.
  bool IsDead(const wire::FlowPath& path) const;
  // The same of the path of this port, if it is among these.
  bool IsDead(std::span<const wire::FlowPath> paths, std::uint16_t port) const;
  // Whether the path may have such a link.
  bool IsSuspect(const wire::FlowPath& path) const;
  // The flow's ports in force whose paths are suspects and have carried nothing since.
  std::vector<PortMeasure> SuspectPorts(const FlowMeasure& flow, const wire::PathSet& set) const;

 private:
  struct DeadPath {
    TimePoint at;  // when it was found last
    std::vector<std::uint32_t> suspects;
  };

  bool IsSuspectSince(const wire::FlowPath& path, TimePoint progress) const;

  std::uint64_t epoch_ = 0;
  std::vector<DeadPath> dead_paths_;  // the oldest first
};

}  // namespace espalier::agent
