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

// Precomputes failure plans: the backup paths of all flows on each single link or switch (Routing
// for Large ML Models, section 3.4.2). When it fails, the new paths and their ports are only looked
// up. The ports are requested from the path learner in advance.
//
// A plan takes each subflow on the failure domain, in order, to the usable path around it whose
// busiest link would carry least. Loads are those of the present paths without the affected
// subflows, plus the subflows already handled. Flows that are parked count as busy: they may be so
// when the failure comes, and plans need not change whenever flows become busy or idle. As paths
// change, plans are refreshed in the
// background; failure domains that carry most come first. A lookup checks the entry against the
// present state, so the valid part of an outdated plan remains usable.
//
// Memory: 16 bytes for each subflow on each failure domain, at most `max_entries` in all; beyond
// that, failure domains that carry least have no plan. Complexity of a plan: O(subflows on the
// failure domain x paths of a pair); figures in docs/benchmarks.md. Deterministic.
// Thread safety: the controller's loop thread. The references must outlive it.
class FailurePlans {
 public:
  FailurePlans(State& state, PathLearner& learner, Metrics& metrics,
               std::size_t max_entries = 4'000'000);

  // Refreshes the most urgent plans, at most `max_subflows` subflows of them (1 to 50 us each,
  // which delay other events). A switch with more subflows takes several calls, between which paths
  // may change. False: all plans are up to date. O(links log links) when it sorts the failure
  // domains.
  bool RefreshNext(std::size_t max_subflows = 100);

  // The failure domain of links that went down together; none if they have no single one.
  std::optional<LinkOrSwitch> Find(std::span<const fabric::LinkId> links) const;
  struct BackupPath {
    std::int32_t path = kNoPath;
    std::uint16_t port = 0;  // that took the path when the plan was made; 0: none was known
    // Whether the port still takes the path: the path map has retracted nothing since.
    bool leads_there = false;
    bool operator==(const BackupPath&) const = default;
  };
  // The backup path of a subflow on its present path; none if none was planned or it is not usable.
  std::optional<BackupPath> BackupPathFor(LinkOrSwitch domain, SubflowId subflow);

  // Calls visit(subflow, from, to) for all subflows for which BackupPathFor returns a path.
  void ForEachBackupPath(
      LinkOrSwitch domain,
      const std::function<void(SubflowId subflow, std::int32_t from, std::int32_t to)>& visit);

  std::size_t entries() const { return entries_; }
  std::size_t EntriesOf(LinkOrSwitch domain) const { return PlanOf(domain).entries.size(); }
  // Whether no path and no link has changed since its plan was made.
  bool IsFresh(LinkOrSwitch domain) const;
  // How many failure domains carry subflows, and how many of these have a fresh plan.
  std::size_t loaded() const;
  std::size_t fresh() const;

 private:
  struct Entry {
    SubflowId subflow;
    std::int32_t from = kNoPath;
    std::int32_t to = kNoPath;
    std::uint16_t port = 0;
    std::uint16_t flow = 0;  // FlowTag: detects that the id now belongs to another flow
  };
  struct FailurePlan {
    std::vector<Entry> entries;     // ascending by subflow
    std::uint64_t changes = 0;      // FlowPaths::path_changes when it was made
    std::int64_t version = -1;      // topology version when it was made
    std::uint64_t retractions = 0;  // PathMap::retractions when it was made
  };

  // The plan that is being made.
  struct Draft {
    LinkOrSwitch domain;
    FailurePlan plan;  // entries from `next` on have no backup path yet
    std::size_t next = 0;
    std::size_t before = 0;  // position in the entries of the domain's earlier plan
  };

  std::size_t IndexOf(LinkOrSwitch domain) const;
  LinkOrSwitch DomainAt(std::size_t index) const;
  const std::vector<std::uint32_t>& LinksOf(LinkOrSwitch domain) const {
    return links_of_[IndexOf(domain)];
  }
  FailurePlan& PlanOf(LinkOrSwitch domain) { return plans_[IndexOf(domain)]; }
  const FailurePlan& PlanOf(LinkOrSwitch domain) const { return plans_[IndexOf(domain)]; }
  std::vector<SubflowId> SubflowsOver(LinkOrSwitch domain) const;
  std::int64_t LoadOf(LinkOrSwitch domain) const;
  void ListSubflows();
  void Clear(LinkOrSwitch domain);
  void SortDomains();
  // Begin, continue (for at most this many subflows; returns how many) and finish the draft.
  void Begin(LinkOrSwitch domain);
  std::size_t Continue(std::size_t max_subflows);
  void Finish();
  // Adds load to the draft's on the links of a path.
  void AddLoad(const Flow& flow, std::int32_t path, std::int64_t units);
  // The path that avoids the draft's domain and whose busiest link carries least with this share.
  std::int32_t ChoosePath(const Flow& flow, std::int64_t share);
  // The port of the earlier plan if that has the same backup path, else FindOrRequestPort.
  std::uint16_t PortFor(const Entry& entry, const Flow& flow);
  // A port of the path map or of a hash model; 0 if there is none and probes were requested.
  std::uint16_t FindOrRequestPort(const Flow& flow, std::int32_t path);
  static std::uint16_t FlowTag(const Flow& flow);

  State& state_;
  PathLearner& learner_;
  const std::size_t max_entries_;
  std::vector<std::vector<std::uint32_t>> links_of_;  // directed, by domain (IndexOf)
  std::vector<FailurePlan> plans_;                    // by domain
  std::size_t entries_ = 0;
  // The subflows on each directed link, parked or not, when the domains were sorted: those of link
  // l are listed_[first_listed_[l]] to listed_[first_listed_[l + 1] - 1].
  struct Listed {
    SubflowId subflow;
    std::int32_t path = kNoPath;
  };
  std::vector<std::uint32_t> first_listed_;
  std::vector<Listed> listed_;
  std::vector<LinkOrSwitch> order_;  // domains without a fresh plan; the last comes first
  std::uint64_t ordered_changes_ = 0;
  std::int64_t ordered_version_ = -1;
  std::optional<Draft> draft_;
  std::vector<std::int64_t> extra_;  // by directed link: load that the draft adds
  std::vector<bool> is_failing_;     // by directed link: of the draft's domain
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint32_t> hops_;
  Counter& made_;
  Counter& paths_computed_;
  Gauge& entries_gauge_;
};

}  // namespace espalier::controller
