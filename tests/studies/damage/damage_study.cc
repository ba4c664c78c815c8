#include "tests/studies/damage/damage_study.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/fabric/paths.h"
#include "tests/studies/damage/set_transfers.h"
#include "tests/studies/damage/steered_sets.h"

namespace espalier::offline {

using fabric::LinkId;
using fabric::NodeId;
using fabric::Topology;
using Sets = std::vector<std::vector<SetPath>>;

namespace {

tl::unexpected<Error> Cancelled() { return Fail(ErrorCode::kResourceExhausted, "interrupted"); }

void TakeSets(SetTransfers& transfers, const Sets& sets) {
  for (std::uint32_t f = 0; f < sets.size(); ++f) transfers.SetPaths(f, sets[f]);
}

int LargestOf(const Sets& sets) {
  std::size_t largest = 0;
  for (const auto& set : sets) largest = std::max(largest, set.size());
  return static_cast<int>(largest);
}

bool IsOver(const SetPath& path, const std::vector<bool>& failed) {
  return std::ranges::any_of(path.links, [&](std::uint32_t link) { return failed[link / 2]; });
}

// The sets after hosts have left these links, by LinkId.
Sets WithStandbys(const Sets& sets, const Sets& standbys, const std::vector<bool>& failed) {
  Sets moved = sets;
  for (std::size_t f = 0; f < sets.size(); ++f) {
    for (std::size_t p = 0; p < sets[f].size(); ++p) {
      if (IsOver(sets[f][p], failed) && !standbys[f][p].links.empty()) moved[f][p] = standbys[f][p];
    }
  }
  return moved;
}

}  // namespace

std::string_view TrafficName(Traffic traffic) {
  return traffic == Traffic::kPermutation ? "permutation" : "rings";
}

std::size_t DamageStudy::nics() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < topology_.nodes().size(); ++i) {
    count += topology_.IsFlowEndpoint(NodeId(static_cast<std::int32_t>(i))) ? 1 : 0;
  }
  return count;
}

int DamageStudy::LargestSet() const {
  const auto workload = BuildWorkload(topology_, Traffic::kPermutation, 1);
  if (!workload) return kMostPaths;
  const fabric::PathTable paths(topology_);
  std::size_t most = 1;
  for (const SimulatedFlow& flow : workload->flows()) {
    const auto all = paths.Between(flow.source_attachment.leaf, flow.destination_attachment.leaf);
    most = std::max(most, all.size());
  }
  return static_cast<int>(std::min<std::size_t>(most, kMostPaths));
}

std::int64_t DamageStudy::TransferNs() const {
  return static_cast<std::int64_t>(std::llround(options_.seconds * 1e9));
}

Result<Workload> DamageStudy::BuildWorkload(const Topology& topology, Traffic traffic,
                                            int jobs) const {
  auto made = traffic == Traffic::kPermutation ? MakePermutation(topology, options_.seed)
                                               : MakeRings(topology, jobs, options_.seed);
  if (!made) return Propagate(made);
  return Workload::Build(topology, std::move(*made));
}

double DamageStudy::BitsOf(const Workload& workload) const {
  std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
  for (const SimulatedFlow& flow : workload.flows()) {
    for (const fabric::Attachment& end : {flow.source_attachment, flow.destination_attachment}) {
      slowest = std::min(slowest, topology_.link(end.uplink->link).rate.value);
    }
  }
  return static_cast<double>(slowest) * options_.seconds;
}

Result<KnownDamage> DamageStudy::RunKnown(Traffic traffic, Damage damage, int paths) const {
  const Topology topology = BuildDamaged(topology_, link_, damage);
  auto workload = BuildWorkload(topology, traffic, options_.jobs);
  if (!workload) return Propagate(workload);
  const double bits = BitsOf(*workload);
  const auto transfer_ns = static_cast<double>(TransferNs());
  KnownDamage row{.traffic = traffic, .damage = damage};
  row.bound = FractionalBound(*workload, {topology, topology}, bits) / transfer_ns;
  for (const bool keeps_weights : {false, true}) {
    auto steered = SteeredSets::Make(
        topology, *workload,
        {.paths = static_cast<std::uint8_t>(paths), .keeps_weights = keeps_weights});
    if (!steered) return Propagate(steered);
    const Sets sets = (*steered)->Sets();
    row.paths = LargestOf(sets);
    for (const Dealing dealing : {Dealing::kStatic, Dealing::kByProgress}) {
      if (keeps_weights && dealing == Dealing::kByProgress) continue;
      SetTransfers transfers(topology, *workload, dealing);
      TakeSets(transfers, sets);
      TransferRun::Changes changes;
      const auto outcome = RunTransfers(
          transfers, *workload, {.bits = bits, .is_cancelled = options_.is_cancelled}, changes);
      if (options_.is_cancelled()) return Cancelled();
      const double slowest = static_cast<double>(outcome.slowest()) / transfer_ns;
      (keeps_weights                 ? row.weights
       : dealing == Dealing::kStatic ? row.equal
                                     : row.progress) = slowest;
    }
  }
  return row;
}

namespace {

// What hosts and the controller make of the sets after the link has failed.
struct FailureDecisions {
  Sets before;
  Sets hosts;       // hosts alone
  Sets controller;  // the failure plan
  Sets recompute;   // and then a recomputation
  Sets both;        // hosts, then the controller
};

Result<FailureDecisions> Decide(const Topology& topology, const Workload& workload, int paths,
                                LinkId link) {
  const SteeredSets::Options options{.paths = static_cast<std::uint8_t>(paths)};
  auto alone = SteeredSets::Make(topology, workload, options);
  if (!alone) return Propagate(alone);
  (*alone)->Prepare();
  FailureDecisions decisions;
  decisions.before = (*alone)->Sets();
  (*alone)->HandleFailure(link, 0);
  decisions.controller = (*alone)->Sets();
  (*alone)->Recompute();
  decisions.recompute = (*alone)->Sets();
  auto together = SteeredSets::Make(topology, workload, options);
  if (!together) return Propagate(together);
  (*together)->Prepare();
  const std::size_t moved = (*together)->GoToStandbys(link);
  decisions.hosts = (*together)->Sets();
  (*together)->HandleFailure(link, moved);
  decisions.both = (*together)->Sets();
  return decisions;
}

}  // namespace

Result<std::vector<Failure>> DamageStudy::RunFailure(int paths) const {
  auto workload = BuildWorkload(topology_, Traffic::kPermutation, 1);
  if (!workload) return Propagate(workload);
  const double bits = BitsOf(*workload);
  const auto transfer_ns = static_cast<double>(TransferNs());
  const std::int64_t fails = std::llround(options_.failure_at * transfer_ns);
  const auto after = [&](double ms) { return fails + std::llround(ms * 1e6); };
  const Topology damaged = BuildDamaged(topology_, link_, Damage::kDead);
  if (auto reaches = SteeredSets::Make(damaged, *workload, {}); !reaches) return Propagate(reaches);
  auto decisions = Decide(topology_, *workload, paths, link_);
  if (!decisions) return Propagate(decisions);
  struct Reaction {
    const char* name;
    const Sets* by_hosts;
    const Sets* by_controller;
  };
  const Reaction reactions[] = {{"nobody", nullptr, nullptr},
                                {"hosts_alone", &decisions->hosts, nullptr},
                                {"controller", nullptr, &decisions->controller},
                                {"recompute", nullptr, &decisions->recompute},
                                {"both", &decisions->hosts, &decisions->both}};
  std::vector<Failure> rows;
  for (const Dealing dealing : {Dealing::kStatic, Dealing::kByProgress}) {
    Failure& row = rows.emplace_back();
    row.paths = LargestOf(decisions->before);
    row.by_progress = dealing == Dealing::kByProgress;
    row.bound = FractionalBound(*workload, {topology_, damaged, static_cast<double>(fails)}, bits) /
                transfer_ns;
    for (const Reaction& reaction : reactions) {
      SetTransfers transfers(topology_, *workload, dealing);
      TakeSets(transfers, decisions->before);
      TransferRun::Changes changes;
      changes.Add(fails, [&] { transfers.FailLink(link_); });
      if (reaction.by_hosts != nullptr) {
        changes.Add(after(options_.hosts_after_ms),
                    [&] { TakeSets(transfers, *reaction.by_hosts); });
      }
      if (reaction.by_controller != nullptr) {
        changes.Add(after(options_.controller_after_ms),
                    [&] { TakeSets(transfers, *reaction.by_controller); });
      }
      const auto outcome = RunTransfers(
          transfers, *workload, {.bits = bits, .is_cancelled = options_.is_cancelled}, changes);
      if (options_.is_cancelled()) return Cancelled();
      row.reactions.push_back({reaction.name, outcome.unfinished(),
                               static_cast<double>(outcome.slowest()) / transfer_ns});
    }
  }
  return rows;
}

namespace {

// Counts the loads of links, relative to the fastest link between switches.
class LoadCounter {
 public:
  explicit LoadCounter(const Topology& topology)
      : topology_(topology), loads_(2 * topology.links().size()) {
    for (std::size_t i = 0; i < topology.links().size(); ++i) {
      const LinkId link(static_cast<std::int32_t>(i));
      if (topology.IsSwitchToSwitch(link)) {
        fastest_ = std::max(fastest_, topology.link(link).rate.value);
      }
    }
  }

  // The greatest load of a link that is up.
  double Most(const Sets& sets, const std::vector<bool>& failed) {
    std::ranges::fill(loads_, 0);
    for (const auto& set : sets) {
      for (const SetPath& path : set) {
        for (const std::uint32_t link : path.links) loads_[link] += path.share;
      }
    }
    double most = 0;
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      const fabric::Link& link = topology_.links()[i / 2];
      if (failed[i / 2] || loads_[i] <= 0) continue;
      most = std::max(
          most, loads_[i] * static_cast<double>(fastest_) / static_cast<double>(link.rate.value));
    }
    return most;
  }

 private:
  const Topology& topology_;
  std::vector<double> loads_;
  std::int64_t fastest_ = 1;
};

}  // namespace

std::vector<std::vector<bool>> DamageStudy::LinkFailures() const {
  std::vector<std::vector<bool>> failures;
  for (std::size_t i = 0; i < topology_.links().size(); ++i) {
    if (!topology_.IsSwitchToSwitch(LinkId(static_cast<std::int32_t>(i)))) continue;
    failures.emplace_back(topology_.links().size())[i] = true;
  }
  return failures;
}

std::vector<std::vector<bool>> DamageStudy::SwitchFailures() const {
  const fabric::PathTable paths(topology_);
  std::vector<std::vector<bool>> failures;
  for (std::size_t n = 0; n < topology_.nodes().size(); ++n) {
    const NodeId node(static_cast<std::int32_t>(n));
    if (paths.Tier(node) < 1) continue;
    auto& failed = failures.emplace_back(topology_.links().size());
    for (const fabric::DirectedLink link : topology_.Outgoing(node)) {
      failed[link.link.Index()] = true;
    }
  }
  return failures;
}

Result<ShiftedLoads> DamageStudy::RunShiftedLoads(int paths) const {
  auto workload = BuildWorkload(topology_, Traffic::kPermutation, 1);
  if (!workload) return Propagate(workload);
  const double bits = BitsOf(*workload);
  auto steered =
      SteeredSets::Make(topology_, *workload, {.paths = static_cast<std::uint8_t>(paths)});
  if (!steered) return Propagate(steered);
  (*steered)->Prepare();
  const Sets sets = (*steered)->Sets();
  const Sets standbys = (*steered)->StandbySets();
  LoadCounter counter(topology_);
  const std::size_t links = topology_.links().size();
  ShiftedLoads row{.paths = LargestOf(sets), .links = {}, .switches = {}};
  row.before = counter.Most(sets, std::vector<bool>(links));
  row.promised = (*steered)->PromisedLoad();
  const auto try_failure = [&](const std::vector<bool>& failed, ShiftedLoads::Worst& worst) {
    const Sets moved = WithStandbys(sets, standbys, failed);
    Topology damaged = topology_;
    for (std::size_t i = 0; i < links; ++i) {
      if (failed[i]) {
        damaged.SetLinkState(LinkId(static_cast<std::int32_t>(i)), fabric::LinkState::kDown);
      }
    }
    const double load = counter.Most(moved, failed);
    const double bound =
        FractionalBound(*workload, {damaged, damaged}, bits) / static_cast<double>(TransferNs());
    ++worst.failures;
    worst.load = std::max(worst.load, load);
    worst.mean_over_bound += load / bound;
    if (load / bound > worst.over_bound) {
      worst.over_bound = load / bound;
      worst.bound = bound;
    }
    for (const auto& set : moved) {
      worst.without_standby +=
          std::ranges::count_if(set, [&](const SetPath& path) { return IsOver(path, failed); });
    }
  };
  for (const auto& failed : LinkFailures()) {
    try_failure(failed, row.links);
    if (options_.is_cancelled()) return Cancelled();
  }
  for (const auto& failed : SwitchFailures()) try_failure(failed, row.switches);
  for (ShiftedLoads::Worst* worst : {&row.links, &row.switches}) {
    if (worst->failures > 0) worst->mean_over_bound /= static_cast<double>(worst->failures);
  }
  return row;
}

}  // namespace espalier::offline
