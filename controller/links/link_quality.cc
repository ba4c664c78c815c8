#include "controller/links/link_quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "controller/links/link_tiers.h"

namespace espalier::controller {
namespace {

// The minimum time between two judgements, each of which looks at all samples.
constexpr Duration kJudgeInterval = std::chrono::milliseconds(200);
// Totals that are older say little about the present.
constexpr Duration kLongestMeasurement = std::chrono::seconds(5);
// PathSample::subflow has the number of the subflow below the slot of its flow. A port that its
// host has left is suspected apart from the one that the subflow has now.
constexpr unsigned kSubflowBits = 8;

std::vector<double> CapacitiesOf(const fabric::Topology& topology) {
  std::vector<double> capacities(2 * topology.links().size());
  for (std::size_t i = 0; i < topology.links().size(); ++i) {
    const auto rate = static_cast<double>(topology.links()[i].rate.value);
    capacities[2 * i] = capacities[2 * i + 1] = rate;
  }
  return capacities;
}

constexpr std::uint64_t kLeftPort = std::uint64_t{1} << 63U;

std::uint64_t NumberOf(FlowSlot slot, std::size_t subflow) {
  return std::uint64_t{slot.Index()} << kSubflowBits | subflow;
}

std::uint32_t Growth(std::uint32_t from, std::uint32_t to) { return to > from ? to - from : 0; }

}  // namespace

LinkQuality::LinkQuality(State& state, EventLoop& loop, Callbacks callbacks, Metrics& metrics)
    : state_(state),
      loop_(loop),
      callbacks_(std::move(callbacks)),
      quality_(CapacitiesOf(state.topology)),
      slow_(TiersOf(state.topology), loop.Now()),
      found_slow_(metrics.MakeCounter(
          "espalier_controller_links_found_slow_total",
          "Links that flows left because they are clearly slower than their siblings")),
      refused_(metrics.MakeCounter(
          "espalier_controller_slow_links_refused_total",
          "Times that a slow link stayed in use because too many links were slow, too few of its "
          "siblings were measured, or too many flows had moved")),
      links_(metrics.MakeGauge("espalier_controller_links_slow",
                               "Links that flows avoid because they are slow")) {}

bool LinkQuality::SetLinks(const Flow& flow, fabric::PathIndex path, PathSample& sample) const {
  const auto paths = state_.PathsOf(flow);
  if (path.Index() >= paths.size()) return false;
  const auto& hops = paths[path.Index()].hops;
  const auto from = state_.paths.FindAttachment(flow.key.source);
  const auto to = state_.paths.FindAttachment(flow.key.destination);
  if (!from || !to || hops.size() + 2 > PathSample::kMostLinks) return false;
  const auto add = [&](fabric::DirectedLink link) {
    sample.links[sample.link_count++] = static_cast<std::uint32_t>(link.Index());
  };
  add(from->uplink);
  for (const fabric::DirectedLink hop : hops) add(hop);
  add({to->uplink.link, !to->uplink.forward});
  return true;
}

void LinkQuality::HandleMeasurement(FlowSlot slot, const wire::FlowHealth& health) {
  const Flow& flow = state_.flows.At(slot);
  const auto subflow = std::ranges::find(flow.subflows, health.source_port, &Subflow::port);
  const bool is_placed = flow.status == FlowStatus::kRouted || flow.status == FlowStatus::kLearning;
  if (!is_placed || health.source_port == 0 || subflow == flow.subflows.end()) return;
  const auto index = static_cast<std::size_t>(subflow - flow.subflows.begin());
  if (slot.Index() >= totals_.size()) totals_.resize(slot.Index() + 1);
  totals_[slot.Index()].resize(flow.subflows.size());
  const TimePoint now = loop_.Now();
  const Totals present{flow.agent,
                       flow.local,
                       {flow.key, health.source_port},
                       health.retries,
                       health.cnp + health.out_of_sequence,
                       now};
  const Totals before = std::exchange(totals_[slot.Index()][index], present);
  const bool is_same =
      before.agent == flow.agent && before.local == flow.local && before.used == present.used;
  const Duration span = now - before.at;
  if (!is_same || span <= Duration::zero() || span > kLongestMeasurement) return;
  PathSample sample{
      .subflow = NumberOf(slot, index),
      .job = flow.job,
      .source = flow.key.source,
      .destination = flow.key.destination,
      .share = PartOf(flow, *subflow),
      .bps = static_cast<double>(health.achieved_bps),
      .retries_per_second = Growth(before.retries, present.retries) / SecondsOf(span),
      .congestion_per_second = Growth(before.congestion, present.congestion) / SecondsOf(span),
      .rtt_us = static_cast<double>(health.rtt_us)};
  if (SetLinks(flow, subflow->port_path, sample)) quality_.Take(sample, now);
}

bool LinkQuality::MayLoseAnswers(const Flow& flow) const {
  const auto is_dead = [&](const fabric::Path& path) {
    return !fabric::IsAlive(state_.topology, path);
  };
  const Flow* back = flow.opposite ? &state_.flows.At(*flow.opposite) : nullptr;
  if (back == nullptr || back->subflows.empty()) {
    return std::ranges::any_of(state_.PathsOf(flow), is_dead);
  }
  const auto paths = state_.PathsOf(*back);
  return std::ranges::any_of(back->subflows, [&](const Subflow& subflow) {
    const bool is_steered = subflow.port != 0 && subflow.port_path.Index() < paths.size();
    return is_steered ? is_dead(paths[subflow.port_path.Index()])
                      : std::ranges::any_of(paths, is_dead);
  });
}

void LinkQuality::HandleLeft(FlowSlot slot, const wire::FlowHealth& report) {
  const Flow& flow = state_.flows.At(slot);
  if (MayLoseAnswers(flow)) return;
  const auto subflow = std::ranges::find_if(flow.subflows, [&](const Subflow& each) {
    const bool is_it = report.left_port == 0 || each.port == report.left_port;
    return each.port != 0 && !each.adopting && is_it &&
           static_cast<std::uint32_t>(each.port_path.value()) == report.path_id;
  });
  if (subflow == flow.subflows.end()) return;
  PathSample sample{
      .subflow = NumberOf(slot, static_cast<std::size_t>(subflow - flow.subflows.begin())),
      .job = flow.job,
      .source = flow.key.source,
      .destination = flow.key.destination,
      .share = PartOf(flow, *subflow)};
  if (!SetLinks(flow, subflow->port_path, sample)) return;
  left_[sample.subflow] = {flow.key, subflow->port};
  quality_.HandleLeft(sample, report.answered, loop_.Now());
}

void LinkQuality::HandleRecovered(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  for (std::size_t i = 0; i < flow.subflows.size(); ++i) {
    quality_.HandleRecovered(NumberOf(slot, i), flow.key.source, flow.key.destination, loop_.Now());
  }
}

void LinkQuality::HandleFindings(const PathLearner::Findings& findings) {
  for (const PathLearner::AnsweredPort& answered : findings.answered) {
    const bool is_elsewhere =
        std::ranges::any_of(findings.mismatches, [&](const PathLearner::Mismatch& mismatch) {
          return mismatch.key == answered.key && mismatch.port == answered.port;
        });
    if (!is_elsewhere) suspects_.HandleAnswer({answered.key, answered.port});
  }
}

void LinkQuality::RemoveUnconfirmed(std::vector<const PathQuality::Judged*>& judged) {
  std::erase_if(judged, [&](const PathQuality::Judged* path) {
    if (path->bad_in_a_row == 0) return false;
    const std::uint64_t number = path->sample.subflow;
    const std::uint64_t slot = number >> kSubflowBits;
    const std::uint64_t index = number % (std::uint64_t{1} << kSubflowBits);
    const UsedPort& used = path->is_left ? left_.at(number) : totals_[slot][index].used;
    if (!PathLearner::CanProbe(used.key)) return false;
    const auto verdict =
        suspects_.Judge(path->is_left ? number | kLeftPort : number, used, loop_.Now());
    if (verdict == SuspectPaths::Verdict::kAsk) callbacks_.verify(used);
    return verdict != SuspectPaths::Verdict::kBelieve;
  });
  suspects_.EndRound();
}

bool LinkQuality::HasLostLink() {
  if (std::exchange(seen_version_, state_.topology.version()) == state_.topology.version()) {
    return false;
  }
  const auto down =
      std::ranges::count(state_.topology.links(), fabric::LinkState::kDown, &fabric::Link::state);
  return down > std::exchange(seen_down_, down);
}

void LinkQuality::Tick(bool is_enabled) {
  const TimePoint now = loop_.Now();
  // Hosts may have left good paths because acknowledgements were lost on that link.
  if (HasLostLink()) quality_.ForgetLeft();
  if (now - judged_ < kJudgeInterval) return;
  if (!quality_.HasNews() && state_.slow_links.empty()) return;
  judged_ = now;
  const auto flows_on = [&](fabric::LinkId link) {
    const std::vector<std::int64_t> paths = state_.CountPaths();
    return static_cast<std::size_t>(paths[fabric::DirectedLink{link, true}.Index()] +
                                    paths[fabric::DirectedLink{link, false}.Index()]);
  };
  std::vector<const PathQuality::Judged*> judged = quality_.Judge(now);
  if (!is_enabled) judged.clear();
  RemoveUnconfirmed(judged);
  const std::size_t refused = slow_.refused();
  const auto changes = slow_.Update(judged, flows_on, now);
  refused_.Add(static_cast<std::int64_t>(slow_.refused() - refused));
  if (!changes.empty()) Apply(changes);
}

void LinkQuality::Apply(const std::vector<SlowLinks::Change>& changes) {
  for (const SlowLinks::Change& change : changes) {
    const std::string& id = state_.topology.link(change.link).id;
    if (change.is_slow) {
      found_slow_.Add();
      state_.slow_links[change.link] = change.signs;
      state_.history.Record(
          loop_.Now(), "link_slow",
          fmt::format("link={} {} hold_seconds={:.0f}", id, change.signs, SecondsOf(change.hold)));
    } else {
      state_.slow_links.erase(change.link);
      state_.history.Record(loop_.Now(), "link_recovered", fmt::format("link={}", id));
    }
  }
  links_.Set(static_cast<double>(state_.slow_links.size()));
  callbacks_.on_change();
}

}  // namespace espalier::controller
