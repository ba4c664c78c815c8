#include "controller/planning/failure_plans.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "controller/paths/models/path_reach.h"
#include "controller/paths/port_chooser.h"
#include "controller/routing/model/label_search.h"

namespace espalier::controller {

using fabric::DirectedLink;
using fabric::LinkId;
using fabric::NodeId;

// Problem: after a failure, flows lose packets until each has another path and a port for it.
// Searching at that moment would cost time for every flow, and ports may have to be probed first.
// Idea: keep a table of backup paths with ports for every link and switch. SortDomains lists the
// domains without a fresh plan, the most loaded first, and drops the plans of the least loaded ones
// if memory is short. Begin, Continue and Finish make one plan at a time, in slices of some
// subflows. Each subflow takes the path whose busiest link is least loaded, on loads from which the
// affected subflows were removed (extra_), so that a plan spreads its flows.
// Invariant: plans are only hints. BackupPathFor checks that the subflow is on the path for which
// the entry was made, still belongs to the same flow (FlowTag), and that the backup path is usable.
// Cost: O(subflows x candidate paths) per plan. Ports that are still valid are taken from the
// earlier plan, so that a refresh requests few new ones.

FailurePlans::FailurePlans(State& state, PathLearner& learner, Metrics& metrics,
                           std::size_t max_entries)
    : state_(state),
      learner_(learner),
      max_entries_(max_entries),
      links_of_(state.topology.links().size() + state.topology.nodes().size()),
      plans_(links_of_.size()),
      first_listed_(2 * state.topology.links().size() + 1),
      extra_(2 * state.topology.links().size()),
      is_failing_(extra_.size()),
      made_(metrics.MakeCounter("espalier_failure_plans_made_total",
                                "Failure plans computed for a link or switch")),
      paths_computed_(metrics.MakeCounter("espalier_failure_plan_paths_total",
                                          "Subflows for which failure plans were computed")),
      entries_gauge_(metrics.MakeGauge("espalier_failure_plan_entries",
                                       "Backup paths that failure plans hold")) {
  const std::size_t links = state.topology.links().size();
  for (std::size_t i = 0; i < links; ++i) {
    const LinkId id(static_cast<std::int32_t>(i));
    for (const bool forward : {true, false}) {
      const auto link = static_cast<std::uint32_t>(DirectedLink{id, forward}.Index());
      if (!state.view.IsSwitchLink(link)) continue;
      links_of_[i].push_back(link);
      links_of_[links + state.topology.link(id).a.Index()].push_back(link);
      links_of_[links + state.topology.link(id).b.Index()].push_back(link);
    }
  }
}

// Links come first, then nodes.
std::size_t FailurePlans::IndexOf(LinkOrSwitch domain) const {
  if (domain.IsLink()) return domain.link().Index();
  return state_.topology.links().size() + domain.node().Index();
}

LinkOrSwitch FailurePlans::DomainAt(std::size_t index) const {
  const std::size_t links = state_.topology.links().size();
  if (index < links) return LinkOrSwitch::Link(LinkId(static_cast<std::int32_t>(index)));
  return LinkOrSwitch::Switch(NodeId(static_cast<std::int32_t>(index - links)));
}

std::vector<SubflowId> FailurePlans::SubflowsOver(LinkOrSwitch domain) const {
  std::vector<SubflowId> subflows;
  for (const std::uint32_t link : LinksOf(domain)) {
    const auto on_link = state_.flow_paths.assigner().SubflowsOn(link);
    subflows.insert(subflows.end(), on_link.begin(), on_link.end());
    for (std::uint32_t i = first_listed_[link]; i < first_listed_[link + 1]; ++i) {
      const auto& [subflow, path] = listed_[i];
      if (state_.flow_paths.PathOf(subflow) == path) subflows.push_back(subflow);
    }
  }
  // Edges of forests have no backup path: their whole forest is recomputed.
  std::erase_if(subflows, [&](SubflowId subflow) {
    return !state_.flow_paths.OwnerOf(subflow).slot.has_value();
  });
  std::sort(subflows.begin(), subflows.end());
  subflows.erase(std::unique(subflows.begin(), subflows.end()), subflows.end());
  return subflows;
}

std::int64_t FailurePlans::LoadOf(LinkOrSwitch domain) const {
  std::size_t subflows = 0;
  for (const std::uint32_t link : LinksOf(domain)) {
    subflows += std::max<std::size_t>(state_.flow_paths.assigner().SubflowsOn(link).size(),
                                      first_listed_[link + 1] - first_listed_[link]);
  }
  return static_cast<std::int64_t>(subflows);
}

void FailurePlans::ListSubflows() {
  std::vector<std::pair<std::uint32_t, Listed>> all;
  for (std::uint32_t number = 0; number < state_.flow_paths.owner_count(); ++number) {
    const SubflowId subflow(number);
    const auto slot = state_.flow_paths.OwnerOf(subflow).slot;
    const std::int32_t path = slot ? state_.flow_paths.PathOf(subflow) : kNoPath;
    if (path == kNoPath) continue;
    const Flow& flow = state_.flows.At(*slot);
    hops_.clear();
    state_.view.AppendHops(*state_.view.LeafOf(flow.source_leaf),
                           *state_.view.LeafOf(flow.destination_leaf), path, hops_);
    for (const std::uint32_t link : hops_) all.push_back({link, {subflow, path}});
  }
  first_listed_.assign(extra_.size() + 1, 0);
  for (const auto& [link, subflow] : all) ++first_listed_[link + 1];
  std::partial_sum(first_listed_.begin(), first_listed_.end(), first_listed_.begin());
  listed_.resize(all.size());
  std::vector<std::uint32_t> next(first_listed_.begin(), first_listed_.end() - 1);
  for (const auto& [link, subflow] : all) listed_[next[link]++] = subflow;
}

bool FailurePlans::IsFresh(LinkOrSwitch domain) const {
  const FailurePlan& plan = PlanOf(domain);
  return plan.changes == state_.flow_paths.path_changes() &&
         plan.version == state_.topology.version();
}

void FailurePlans::Clear(LinkOrSwitch domain) {
  entries_ -= PlanOf(domain).entries.size();
  PlanOf(domain).entries = {};
}

void FailurePlans::SortDomains() {
  ordered_changes_ = state_.flow_paths.path_changes();
  ordered_version_ = state_.topology.version();
  ListSubflows();
  order_.clear();
  std::vector<std::pair<std::int64_t, LinkOrSwitch>> loaded;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const LinkOrSwitch domain = DomainAt(i);
    const std::int64_t load = LoadOf(domain);
    if (load > 0) {
      loaded.emplace_back(load, domain);
    } else {
      Clear(domain);
    }
  }
  std::sort(loaded.rbegin(), loaded.rend());
  // Keep those for which there is room. A plan has at most as many entries as its domain's load.
  std::size_t room = max_entries_;
  const auto has_room = [&](const auto& domain) {
    const auto most = static_cast<std::size_t>(domain.first);
    if (most > room) return false;
    room -= most;
    return true;
  };
  const auto without = std::stable_partition(loaded.begin(), loaded.end(), has_room);
  std::for_each(without, loaded.end(), [&](const auto& domain) { Clear(domain.second); });
  for (auto with = without; with != loaded.begin();) {
    const LinkOrSwitch domain = (--with)->second;
    if (!IsFresh(domain)) order_.push_back(domain);
  }
}

bool FailurePlans::RefreshNext(std::size_t max_subflows) {
  if (!draft_ && order_.empty()) {
    if (ordered_changes_ == state_.flow_paths.path_changes() &&
        ordered_version_ == state_.topology.version()) {
      return false;
    }
    SortDomains();
  }
  for (std::size_t subflows = 0; subflows < max_subflows && (draft_ || !order_.empty());
       ++subflows) {
    if (!draft_) {
      Begin(order_.back());
      order_.pop_back();
    }
    if (draft_) subflows += Continue(max_subflows - subflows);
  }
  entries_gauge_.Set(static_cast<double>(entries_));
  return true;
}

void FailurePlans::AddLoad(const Flow& flow, std::int32_t path, std::int64_t units) {
  hops_.clear();
  state_.view.AppendHops(*state_.view.LeafOf(flow.source_leaf),
                         *state_.view.LeafOf(flow.destination_leaf), path, hops_);
  for (const std::uint32_t link : hops_) {
    extra_[link] += units;
    touched_.push_back(link);
  }
}

std::int32_t FailurePlans::ChoosePath(const Flow& flow, std::int64_t share) {
  const std::uint32_t source = *state_.view.LeafOf(flow.source_leaf);
  const std::uint32_t destination = *state_.view.LeafOf(flow.destination_leaf);
  const auto all = state_.PathsOf(flow);
  const auto unreachable = FindUnreachable(state_.path_map, flow.key, all);
  const auto units_of = [&](std::uint32_t link) {
    if (is_failing_[link]) return std::int64_t{-1};
    return state_.flow_paths.LoadIfAllAreBusy(link) + extra_[link] + share;
  };
  const auto has_port = [&](std::int32_t path) {
    return !std::ranges::binary_search(unreachable, fabric::PathIndex(path));
  };
  if (state_.view.folded_clos()) {
    return LabelSearch(state_.view).LeastLoaded(source, destination, units_of, has_port);
  }
  std::int32_t best = kNoPath;
  LoadRatio least;
  for (std::int32_t path = 0; path < static_cast<std::int32_t>(all.size()); ++path) {
    hops_.clear();
    state_.view.AppendHops(source, destination, path, hops_);
    if (!state_.view.IsUsable(hops_)) continue;
    LoadRatio busiest;
    bool avoids = true;
    for (const std::uint32_t link : hops_) {
      const LoadRatio load{units_of(link), state_.view.capacities()[link]};
      avoids = avoids && load.units >= 0;
      busiest = std::max(busiest, load);
    }
    if (!avoids || (best != kNoPath && !(busiest < least)) || !has_port(path)) continue;
    best = path;
    least = busiest;
  }
  return best;
}

void FailurePlans::Begin(LinkOrSwitch domain) {
  FailurePlan& before = PlanOf(domain);
  FailurePlan plan{.changes = state_.flow_paths.path_changes(),
                   .version = state_.topology.version(),
                   .retractions = state_.path_map.retractions()};
  const std::vector<SubflowId> subflows = SubflowsOver(domain);
  plan.entries.reserve(subflows.size());
  if (entries_ - before.entries.size() + subflows.size() > max_entries_) {
    entries_ -= before.entries.size();
    before = std::move(plan);
    return;
  }
  for (const SubflowId subflow : subflows) {
    const std::int32_t path = state_.flow_paths.PathOf(subflow);
    const Flow& flow = state_.flows.At(state_.flow_paths.FlowOf(subflow));
    plan.entries.push_back({subflow, path, kNoPath, 0, 0});
    AddLoad(flow, path, -ShareOf(flow, flow.subflows[state_.flow_paths.OwnerOf(subflow).index]));
  }
  for (const std::uint32_t link : LinksOf(domain)) is_failing_[link] = true;
  draft_ = Draft{domain, std::move(plan)};
}

std::size_t FailurePlans::Continue(std::size_t max_subflows) {
  std::vector<Entry>& entries = draft_->plan.entries;
  const std::size_t begin = draft_->next;
  const std::size_t end = std::min(entries.size(), begin + max_subflows);
  for (Entry& entry : std::span(entries).subspan(begin, end - begin)) {
    // Skip it if it has ended or moved meanwhile, or if its id belongs to a reservation.
    const bool is_there = state_.flow_paths.OwnerOf(entry.subflow).slot &&
                          state_.flow_paths.PathOf(entry.subflow) == entry.from;
    if (!is_there) continue;
    const Flow& flow = state_.flows.At(state_.flow_paths.FlowOf(entry.subflow));
    const std::int64_t share =
        ShareOf(flow, flow.subflows[state_.flow_paths.OwnerOf(entry.subflow).index]);
    entry.flow = FlowTag(flow);
    entry.to = ChoosePath(flow, share);
    if (entry.to == kNoPath) continue;
    AddLoad(flow, entry.to, share);
    entry.port = PortFor(entry, flow);
  }
  draft_->next = end;
  paths_computed_.Add(static_cast<std::int64_t>(end - begin));
  if (end == entries.size()) Finish();
  return end - begin;
}

void FailurePlans::Finish() {
  FailurePlan& plan = PlanOf(draft_->domain);
  entries_ -= plan.entries.size();
  plan = std::move(draft_->plan);
  entries_ += plan.entries.size();
  made_.Add();
  for (const std::uint32_t link : LinksOf(draft_->domain)) is_failing_[link] = false;
  draft_.reset();
  for (const std::uint32_t link : std::exchange(touched_, {})) extra_[link] = 0;
}

std::uint16_t FailurePlans::FlowTag(const Flow& flow) {
  return static_cast<std::uint16_t>(std::hash<fabric::PortKey>{}(flow.key));
}

std::uint16_t FailurePlans::PortFor(const Entry& entry, const Flow& flow) {
  const FailurePlan& before = PlanOf(draft_->domain);  // ascending, as the draft's
  std::size_t& next = draft_->before;
  while (next < before.entries.size() && before.entries[next].subflow < entry.subflow) ++next;
  if (next < before.entries.size() && before.version == draft_->plan.version) {
    const Entry& known = before.entries[next];
    const bool is_same = known.subflow == entry.subflow && known.to == entry.to &&
                         known.flow == entry.flow && before.retractions == draft_->plan.retractions;
    if (is_same && known.port != 0 && !state_.flow_paths.ports().IsTaken(flow.key, known.port)) {
      return known.port;
    }
  }
  return FindOrRequestPort(flow, entry.to);
}

std::uint16_t FailurePlans::FindOrRequestPort(const Flow& flow, std::int32_t path) {
  const fabric::PathIndex index(path);
  const auto choose = [&] {
    const auto entry = ChoosePort(state_.path_map, flow.key, index, state_.flow_paths.ports(),
                                  PortNeed::kUrgent, 0);
    return entry ? entry->port : std::uint16_t{0};
  };
  const std::uint16_t port = choose();
  return port != 0 || !learner_.RequestPort(flow.key, index) ? port : choose();
}

std::optional<LinkOrSwitch> FailurePlans::Find(std::span<const LinkId> links) const {
  if (links.empty()) return std::nullopt;
  if (links.size() == 1) return LinkOrSwitch::Link(links.front());
  for (const NodeId node :
       {state_.topology.link(links.front()).a, state_.topology.link(links.front()).b}) {
    const auto domain = LinkOrSwitch::Switch(node);
    const bool has_all = std::all_of(links.begin(), links.end(), [&](LinkId link) {
      return domain.Includes(state_.topology, link);
    });
    if (has_all) return domain;
  }
  return std::nullopt;
}

std::optional<FailurePlans::BackupPath> FailurePlans::BackupPathFor(LinkOrSwitch domain,
                                                                    SubflowId subflow) {
  const std::vector<Entry>& entries = PlanOf(domain).entries;
  const auto found =
      std::lower_bound(entries.begin(), entries.end(), subflow,
                       [](const Entry& entry, SubflowId wanted) { return entry.subflow < wanted; });
  if (found == entries.end() || found->subflow != subflow) return std::nullopt;
  if (found->to == kNoPath || found->from != state_.flow_paths.PathOf(subflow)) return std::nullopt;
  // The id may belong to another flow by now, whose path indices mean other links.
  if (!state_.flow_paths.OwnerOf(subflow).slot) return std::nullopt;
  const Flow& flow = state_.flows.At(state_.flow_paths.FlowOf(subflow));
  if (found->flow != FlowTag(flow)) return std::nullopt;
  if (static_cast<std::size_t>(found->to) >= state_.PathsOf(flow).size()) return std::nullopt;
  hops_.clear();
  state_.view.AppendHops(*state_.view.LeafOf(flow.source_leaf),
                         *state_.view.LeafOf(flow.destination_leaf), found->to, hops_);
  if (!state_.view.IsUsable(hops_)) return std::nullopt;
  return BackupPath{found->to, found->port,
                    PlanOf(domain).retractions == state_.path_map.retractions()};
}

void FailurePlans::ForEachBackupPath(
    LinkOrSwitch domain,
    const std::function<void(SubflowId subflow, std::int32_t from, std::int32_t to)>& visit) {
  for (const Entry& entry : PlanOf(domain).entries) {
    const bool adds_load = state_.flow_paths.assigner().PathOf(entry.subflow) == entry.from;
    if (adds_load && BackupPathFor(domain, entry.subflow))
      visit(entry.subflow, entry.from, entry.to);
  }
}

std::size_t FailurePlans::loaded() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    count += LoadOf(DomainAt(i)) > 0 ? 1 : 0;
  }
  return count;
}

std::size_t FailurePlans::fresh() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const LinkOrSwitch domain = DomainAt(i);
    count += LoadOf(domain) > 0 && IsFresh(domain) ? 1 : 0;
  }
  return count;
}

}  // namespace espalier::controller
