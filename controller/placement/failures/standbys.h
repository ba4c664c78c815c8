#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/metrics.h"
#include "controller/placement/ports/port_binder.h"
#include "controller/planning/link_or_switch.h"
#include "controller/planning/shift_loads.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Gives each path of a steered flow a standby path. A host that finds a path dead sends by its
// standby at once, without asking, also while there is no controller (agent::PathGuard).
//
// A standby has no switch in common with its path, but for the first and the last one, where the
// fabric has such a path, and none with the return path of TCP's acknowledgements, if that is
// known. Of these it is the one whose links would carry least if anything on the flow's path failed
// and all hosts concerned moved to their standbys, on top of what the links carry now. So hosts do
// not meet on one link by chance. WorstFailure tells what remains possible.
//
// A host goes to the standby also if only the acknowledgements of a TCP flow are lost. Of a flow
// whose return path is not known it is assumed that this path fails with that of the data only, as
// it does for RDMA, where acknowledgements take the same links.
//
// Standbys are chosen after the paths, some at a time, and again when a path, a link or a port has
// changed. A flow has none while it moves, if it cannot move, or if its agent does not know them.
// Answering ends (AnsweringEnds) have one, too, which adds no load: their host probes it when peers
// repeat requests (agent::RepeatWatch).
//
// Thread safety: the controller's loop thread. The references must outlive it.
class Standbys {
 public:
  Standbys(const State& state, FlowDecisions& decisions, PortBinder& ports, Metrics& metrics);

  // Looks at a tenth of the flows, or at 64 if these are more, and chooses the standbys that are
  // missing or do not fit any more, at most 512. To be called ten times a second. A choice takes
  // O(paths of the pair x hops squared), for at most 64 of the paths.
  void Tick();

  // Of all single failures, the one after which a link is most loaded, if all hosts concerned move
  // to their standbys and the controller does nothing.
  struct Worst {
    std::optional<LinkOrSwitch> failure;  // none: no flow has a standby
    std::uint32_t link = 0;               // the most loaded one, a directed link
    double load = 0;                      // its load, relative to the fastest link
  };
  // Counts the loads of the flows that are busy now, and those links that carry more then. Exact on
  // two tiers; with more, flows may still count on links of the paths that they have left.
  // O(ShiftLoads::size), and O(flows x hops squared) where flows that lose only acknowledgements
  // relieve a link on which others may arrive.
  Worst WorstFailure() const;

 private:
  // A standby that `shifts_` counts, with all that is needed to take it out again.
  struct Counted {
    AgentId agent;
    wire::LocalFlowId local;
    std::uint32_t source = 0;  // leaves, as the view numbers them
    std::uint32_t destination = 0;
    std::int32_t path = kNoPath;
    std::int32_t standby = kNoPath;  // kNoPath: not counted
    std::int32_t back = kNoPath;     // the return path that it was chosen for, if that was known
    std::int64_t share = 0;
  };

  void Visit(FlowSlot slot);
  bool MayHaveStandbys(FlowSlot slot) const;
  // What the subflow would put on the links of its standby path.
  static std::int64_t ShiftedBy(const Flow& flow, const Subflow& subflow);
  // Whether the subflow's standby was chosen for its present path and can still be used.
  bool Fits(const Flow& flow, const Subflow& subflow, const Counted& counted) const;
  // Returns kNoPath if there is no other usable path.
  std::int32_t Choose(const Flow& flow, const Counted& counted, std::size_t first);
  // kNoPath: unknown.
  std::int32_t ReturnOf(const Flow& flow, const Subflow& subflow) const;
  void Take(FlowSlot slot, std::uint32_t index, std::int32_t standby);
  void TakeOut(Counted& counted);
  std::span<const std::uint32_t> HopsOf(const Counted& counted, std::int32_t path,
                                        std::vector<std::uint32_t>& hops) const;
  // Of the return path; none if it is not known.
  std::span<const std::uint32_t> BackHopsOf(const Counted& counted,
                                            std::vector<std::uint32_t>& hops) const;
  // What the standby of `counted` means for loads. Valid until one of these vectors changes.
  ShiftLoads::Move MoveOf(const Counted& counted, std::vector<std::uint32_t>& path,
                          std::vector<std::uint32_t>& back,
                          std::vector<std::uint32_t>& standby) const;
  // Takes the failure of a single link for the worst one, if it loads another one more. Looks at
  // the links of those switches that `switches` has for the loaded one.
  void CompareLinks(const std::vector<std::vector<fabric::NodeId>>& switches, Worst& worst) const;
  double Loaded(std::uint32_t link, std::int64_t units) const;

  const State& state_;
  FlowDecisions& decisions_;
  PortBinder& ports_;
  ShiftLoads shifts_;
  std::vector<std::vector<Counted>> counted_;  // by slot and subflow
  std::size_t next_ = 0;                       // slot, modulo the number of slots
  std::size_t choices_left_ = 0;               // in this tick
  std::vector<std::uint32_t> hops_;
  std::vector<std::uint32_t> path_hops_;
  std::vector<std::uint32_t> back_hops_;
  Counter& chosen_;
};

}  // namespace espalier::controller
