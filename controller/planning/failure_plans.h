#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "common/base/metrics.h"
#include "controller/paths/path_learner.h"
#include "controller/planning/link_or_switch.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Where the flows on each single link or switch go when it fails (Routing for Large ML Models,
// section 3.4.2), planned before it does: then the new paths are looked up, with their ports, which
// were asked of the path learner ahead.
//
// A plan takes each way on the element, in order, to the usable path around it whose busiest link
// would carry least, on top of what is live (less the ways that must leave) and of those before it.
// Plans are made anew in the background as paths change: elements whose own ways have changed and
// that carry most come first. What is looked up is checked against the state as it is, so that a
// plan that is behind, or was made before another failure, is taken as far as it is right.
//
// Memory: 16 bytes for each way on each element, at most `max_entries` in all: elements that carry
// least then have no plan. Complexity of a plan: O(ways on the element x paths of a pair); figures
// in docs/benchmarks.md. Deterministic.
// Thread safety: the controller's loop thread. The references must outlive it.
class FailurePlans {
 public:
  FailurePlans(State& state, PathLearner& learner, Metrics& metrics,
               std::size_t max_entries = 4'000'000);

  // Makes plans for the elements that need one most, `max_subflows` ways of them at most: a switch
  // with more takes several calls, between which paths may change. (Some 0.1 ms: what arrives
  // meanwhile waits.) False: all are as fresh as they can be. O(links log links) now and then, to
  // put them in order.
  bool RefreshNext(std::size_t max_subflows = 100);

  // That which has failed where these links went down together; none where it is no single one.
  std::optional<LinkOrSwitch> Find(std::span<const fabric::LinkId> links) const;
  // Where a way goes which was on a path over the element.
  struct BackupPath {
    std::int32_t path = kNoPath;
    std::uint16_t port = 0;  // that led there when the plan was made; 0: none was known
    // The path map has taken nothing back since: the port leads to the path.
    bool leads_there = false;
    bool operator==(const BackupPath&) const = default;
  };
  // None: nothing was planned for it on that path, or what was planned is not usable now.
  std::optional<BackupPath> BackupPathFor(LinkOrSwitch domain, SubflowId subflow);

  // Calls visit(way, from, to) for all ways that an Escape is ready for, as they are now.
  void ForEachBackupPath(
      LinkOrSwitch domain,
      const std::function<void(SubflowId subflow, std::int32_t from, std::int32_t to)>& visit);

  std::size_t entries() const { return entries_; }
  std::size_t EntriesOf(LinkOrSwitch domain) const { return PlanOf(domain).entries.size(); }
  // Its plan is for the paths as they are.
  bool IsFresh(LinkOrSwitch domain) const;
  // Elements that carry ways, and those of them with a plan for the paths as they are.
  std::size_t loaded() const;
  std::size_t fresh() const;

 private:
  struct Entry {
    SubflowId subflow;
    std::int32_t from = kNoPath;
    std::int32_t to = kNoPath;
    std::uint16_t port = 0;
    std::uint16_t flow = 0;  // FlowTag: the way may be another flow's by now
  };
  struct Plan {
    std::vector<Entry> entries;     // ascending by way
    std::uint64_t changes = 0;      // FlowPaths::changes when it was made
    std::int64_t version = -1;      // of the topology then
    std::uint64_t retractions = 0;  // PathMap's then
  };

  // The plan that is being made.
  struct Draft {
    LinkOrSwitch domain;
    Plan plan;  // `to` of those from `next` on is open
    std::size_t next = 0;
    std::size_t before = 0;  // in the entries of the plan before it, as far as they are looked at
  };

  std::size_t IndexOf(LinkOrSwitch domain) const;
  LinkOrSwitch ElementAt(std::size_t index) const;
  const std::vector<std::uint32_t>& LinksOf(LinkOrSwitch domain) const {
    return links_of_[IndexOf(domain)];
  }
  Plan& PlanOf(LinkOrSwitch domain) { return plans_[IndexOf(domain)]; }
  const Plan& PlanOf(LinkOrSwitch domain) const { return plans_[IndexOf(domain)]; }
  std::vector<SubflowId> SubflowsOver(LinkOrSwitch domain) const;
  std::int64_t LoadOf(LinkOrSwitch domain) const;
  void Clear(LinkOrSwitch domain);
  void PutInOrder();
  void Begin(LinkOrSwitch domain);
  // For so many ways at most; how many it was.
  std::size_t GoOn(std::size_t max_subflows);
  void Finish();
  // Less or more of a way's share on the links of a path.
  void AddLoad(const Flow& flow, std::int32_t path, int sign);
  std::int32_t ChoosePath(LinkOrSwitch domain, const Flow& flow, std::int64_t share);
  bool Avoids(LinkOrSwitch domain, std::span<const std::uint32_t> hops) const;
  // That of the plan before where that goes the same way. 0: it is to be found.
  std::uint16_t PortFor(const Entry& entry, const Flow& flow);
  std::uint16_t AskForPort(const Flow& flow, std::int32_t path);
  static std::uint16_t FlowTag(const Flow& flow);

  State& state_;
  PathLearner& learner_;
  const std::size_t max_entries_;
  std::vector<std::vector<std::uint32_t>> links_of_;  // directed, by element (IndexOf)
  std::vector<Plan> plans_;                           // by element
  std::size_t entries_ = 0;
  std::vector<LinkOrSwitch> order_;  // to be made, the last first
  std::uint64_t ordered_changes_ = 0;
  std::int64_t ordered_version_ = -1;
  std::optional<Draft> draft_;
  std::vector<std::int64_t> extra_;  // by directed link, of the draft
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint32_t> hops_;
  Counter& made_;
  Counter& paths_computed_;
  Gauge& entries_gauge_;
};

}  // namespace espalier::controller
