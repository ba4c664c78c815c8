#include "controller/links/background_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "common/base/units.h"

namespace espalier::controller {

using fabric::DirectedLink;

namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t kSteps = 16;       // of a link's rate
constexpr double kMostOfRate = 1.1;       // a report may say
constexpr double kHeaders = 17.0 / 16.0;  // bytes on the wire of a byte that a flow sends

Result<void> Wrong(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace

BackgroundLoads::BackgroundLoads(State& state, Metrics& metrics,
                                 std::function<void(std::size_t)> on_change)
    : state_(state),
      on_change_(std::move(on_change)),
      entries_(2 * state.topology.links().size()),
      own_bps_(entries_.size()),
      reserved_bps_(entries_.size()),
      own_bits_(entries_.size()),
      loaded_links_(metrics.MakeGauge(
          "espalier_controller_background_loaded_links",
          "Directed links between switches that carry background load by the reports of feeds")) {}

std::int64_t BackgroundLoads::RateOf(std::size_t link) const {
  return state_.topology.link(DirectedLink::FromIndex(link).link).rate.value;
}

Result<void> BackgroundLoads::Check(const LinkLoadReport& report) const {
  const bool is_printable = std::all_of(report.source.begin(), report.source.end(),
                                        [](char c) { return c >= ' ' && c <= '~'; });
  if (report.source.empty() || report.source.size() > kMaxSourceCharacters || !is_printable) {
    return Wrong(
        fmt::format("invalid source (use 1 to {} printable characters)", kMaxSourceCharacters));
  }
  if (report.max_age < kLeastMaxAge || report.max_age > kGreatestMaxAge) {
    return Wrong(fmt::format("max_age_seconds is out of range (use {} to {})",
                             SecondsOf(kLeastMaxAge), SecondsOf(kGreatestMaxAge)));
  }
  std::vector<bool> is_named(entries_.size());
  for (const auto& [link, bps] : report.loads) {
    const std::string name = state_.topology.DirectionName(link);
    if (!state_.topology.IsFabricLink(link.link)) {
      return Wrong(fmt::format("{} joins a host (report links between switches)", name));
    }
    if (is_named[link.Index()]) {
      return Wrong(fmt::format("{} occurs twice (report each direction once)", name));
    }
    is_named[link.Index()] = true;
    const auto rate = static_cast<double>(RateOf(link.Index()));
    if (!std::isfinite(bps) || bps < 0 || bps > kMostOfRate * rate) {
      return Wrong(fmt::format(
          "{} cannot carry {} bit/s (report bits per second, from 0 to the link's rate, {:.0f})",
          name, bps, rate));
    }
  }
  return {};
}

void BackgroundLoads::SampleOwnTraffic(TimePoint now) {
  const double seconds = SecondsOf(now - std::exchange(sampled_, now));
  std::fill(own_bps_.begin(), own_bps_.end(), 0);
  std::fill(reserved_bps_.begin(), reserved_bps_.end(), 0);
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    const auto achieved = static_cast<double>(state_.flows.ActivityOf(slot).achieved_bps);
    if (flow.subflows.empty()) continue;
    const auto paths = state_.PathsOf(flow);
    for (const Subflow& subflow : flow.subflows) {
      // Where its packets go, not where they are to go; without a port, the hash decides.
      if (subflow.port == 0 || subflow.adopting) continue;
      // A flow that pauses may have sent what the first report counts: its links have own traffic.
      const double bps = std::max(1.0, kHeaders * achieved * PartOf(flow, subflow));
      for (const DirectedLink hop : paths[subflow.port_path.Index()].hops)
        own_bps_[hop.Index()] += bps;
    }
  }
  const double unit = static_cast<double>(state_.view.unit_bps()) / static_cast<double>(kLoadUnit);
  for (const auto& [name, edge] : state_.edges.all()) {
    for (const DirectedLink hop : state_.PathOf(edge).hops)
      reserved_bps_[hop.Index()] += unit * static_cast<double>(edge.load);
  }
  for (std::size_t link = 0; link < own_bits_.size(); ++link)
    own_bits_[link] += seconds * own_bps_[link];
}

std::int64_t BackgroundLoads::BackgroundOf(std::size_t link, std::int64_t total_bps,
                                           TimePoint now) {
  Entry& entry = entries_[link];
  auto total = static_cast<double>(total_bps);
  double own = own_bps_[link];
  const bool has_mean = entry.is_known && entry.counts_all && now > entry.measured;
  if (has_mean) {
    entry.total_bits += total * SecondsOf(now - entry.measured);
    if (now - entry.span_start < kLeastSpan) return entry.background_bps;
    const double seconds = SecondsOf(now - entry.span_start);
    total = entry.total_bits / seconds;
    own = (own_bits_[link] - entry.own_bits) / seconds;
  }
  entry.span_start = now;
  entry.own_bits = own_bits_[link];
  entry.total_bits = 0;
  const double rest = total - own - reserved_bps_[link];
  const auto background = static_cast<std::int64_t>(std::max(0.0, rest));
  const std::int64_t last = std::exchange(entry.candidate_bps, background);
  return has_mean || own > 0 ? std::min(background, last) : background;
}

bool BackgroundLoads::Apply(Entry& entry, std::size_t link, TimePoint now) {
  const double exact = static_cast<double>(kSteps) * static_cast<double>(entry.background_bps) /
                       static_cast<double>(RateOf(link));
  const auto now_steps = static_cast<double>(entry.steps);
  const auto nearest = std::min(kSteps, static_cast<std::int64_t>(std::lround(exact)));
  const bool is_lower = exact < now_steps - 1 || (nearest == 0 && entry.steps > 0);
  if (!is_lower) entry.last_high = now;
  const bool changes = exact > now_steps + 1 || (is_lower && now - entry.last_high >= kHold);
  if (!changes || nearest == entry.steps) return false;
  state_.history.RecordOf(
      "feeds", now, "background_load_changed",
      fmt::format("link={} from={} to={} bps={} source=\"{}\"",
                  state_.topology.DirectionName(DirectedLink::FromIndex(link)),
                  static_cast<double>(entry.steps) / kSteps, static_cast<double>(nearest) / kSteps,
                  entry.background_bps, entry.source));
  entry.steps = nearest;
  return true;
}

void BackgroundLoads::CountSource(const std::string& source, int links, TimePoint now) {
  std::size_t& known = sources_[source];
  if (known == 0) {
    state_.history.RecordOf("feeds", now, "background_feed_started",
                            fmt::format("source=\"{}\"", source));
  }
  known += static_cast<std::size_t>(links);
  if (known == 0) sources_.erase(source);
}

Result<void> BackgroundLoads::HandleReport(const LinkLoadReport& report, TimePoint now) {
  if (Result<void> checked = Check(report); !checked) return checked;
  if (!report.only_background) SampleOwnTraffic(now);
  std::size_t changed = 0;
  for (const auto& [link, bps] : report.loads) {
    Entry& entry = entries_[link.Index()];
    const auto measured = std::min(RateOf(link.Index()), static_cast<std::int64_t>(bps));
    entry.background_bps =
        report.only_background ? measured : BackgroundOf(link.Index(), measured, now);
    if (!entry.is_known || entry.source != report.source) {
      CountSource(report.source, 1, now);
      if (entry.is_known) CountSource(entry.source, -1, now);
    }
    if (entry.is_known && entry.counts_all) --counting_all_;
    if (!report.only_background) ++counting_all_;
    entry.is_known = true;
    entry.counts_all = !report.only_background;
    entry.source = report.source;
    entry.measured = now;
    entry.max_age = report.max_age;
    changed += Apply(entry, link.Index(), now) ? 1 : 0;
  }
  state_.silent_feeds.erase(report.source);
  Publish(changed);
  return {};
}

void BackgroundLoads::Tick(TimePoint now) {
  std::erase_if(state_.silent_feeds,
                [&](const auto& feed) { return now - feed.second > kFeedIsMissedFor; });
  if (sources_.empty()) return;
  if (counting_all_ > 0) SampleOwnTraffic(now);
  std::size_t changed = 0;
  std::map<std::string, std::size_t> silent;
  for (std::size_t link = 0; link < entries_.size(); ++link) {
    Entry& entry = entries_[link];
    if (!entry.is_known || now - entry.measured <= entry.max_age) continue;
    ++silent[entry.source];
    CountSource(entry.source, -1, now);
    if (entry.counts_all) --counting_all_;
    changed += entry.steps > 0 ? 1 : 0;
    entry = {};
  }
  for (const auto& [source, links] : silent) {
    if (state_.silent_feeds.size() < kMostSilentFeeds) state_.silent_feeds.emplace(source, now);
    state_.history.RecordOf("feeds", now, "background_feed_silent",
                            fmt::format("source=\"{}\" links={} consequence=\"their background "
                                        "load is unknown and counts as none\"",
                                        source, links));
  }
  Publish(changed);
}

void BackgroundLoads::Publish(std::size_t changed) {
  if (changed == 0) return;
  std::vector<std::int64_t> units(entries_.size());
  std::size_t loaded = 0;
  for (std::size_t link = 0; link < entries_.size(); ++link) {
    if (entries_[link].steps == 0) continue;
    ++loaded;
    units[link] = static_cast<std::int64_t>(Wide{kLoadUnit} * entries_[link].steps * RateOf(link) /
                                            (Wide{kSteps} * state_.view.unit_bps()));
  }
  loaded_links_.Set(static_cast<double>(loaded));
  state_.flow_paths.SetBaseLoads(units);
  on_change_(changed);
}

std::optional<BackgroundLoads::Background> BackgroundLoads::Find(DirectedLink link) const {
  const Entry& entry = entries_[link.Index()];
  if (!entry.is_known) return std::nullopt;
  return Background{.bps = RateOf(link.Index()) / kSteps * entry.steps,
                    .reported_bps = entry.background_bps,
                    .source = entry.source,
                    .measured = entry.measured};
}

}  // namespace espalier::controller
