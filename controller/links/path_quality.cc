#include "controller/links/path_quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace espalier::controller {
namespace {

constexpr std::uint32_t kAnyJob = ~std::uint32_t{0};
constexpr double kDeviationOfMad = 1.4826;  // of a normal distribution

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<fabric::LinkId> LinksOf(const PathSample& sample) {
  std::vector<fabric::LinkId> links;
  for (const std::uint32_t index : sample.FabricLinks()) {
    links.push_back(fabric::DirectedLink::FromIndex(index).link);
  }
  std::ranges::sort(links);
  return links;
}

}  // namespace

PathQuality::PathQuality(std::vector<double> capacities_bps, const PathQualityOptions& options)
    : capacities_bps_(std::move(capacities_bps)), options_(options) {}

void PathQuality::Take(const PathSample& sample, TimePoint now) {
  Entry& entry = samples_[sample.subflow];
  const bool is_same_path = std::ranges::equal(entry.sample.Links(), sample.Links());
  if (!is_same_path) entry = {};
  entry.weight = entry.taken == TimePoint{}
                     ? 1
                     : 1 - std::exp(-SecondsOf(now - entry.taken) / SecondsOf(options_.smoothing));
  entry.sample = sample;
  entry.taken = now;
  entry.is_new = true;
  has_news_ = true;
}

void PathQuality::HandleLeft(const PathSample& sample, bool was_answered, TimePoint now) {
  // A flow that leaves the next path at once may not have tried it: it waits ever longer for an
  // acknowledgement.
  const auto before = left_.find(sample.subflow);
  const bool is_on_trial = before != left_.end() && !before->second.has_recovered &&
                           now - before->second.taken <= options_.trial;
  if (is_on_trial) return;
  Left left{
      {.sample = sample, .taken = now, .bad_in_a_row = was_answered ? 0 : options_.left_evidence}};
  left.is_left = true;
  left.signs = "left_by_host=1";
  const auto measured = samples_.find(sample.subflow);
  if (measured != samples_.end() &&
      std::ranges::equal(measured->second.sample.Links(), sample.Links())) {
    left.bad_in_a_row += measured->second.bad_in_a_row;
    if (measured->second.bad_in_a_row > 0) left.signs += " " + measured->second.signs;
    samples_.erase(measured);
  }
  if (left.bad_in_a_row == 0) return;
  left_[sample.subflow] = std::move(left);
}

void PathQuality::HandleRecovered(std::uint64_t subflow, fabric::NodeId source,
                                  fabric::NodeId destination, TimePoint now) {
  const auto left = left_.find(subflow);
  if (left == left_.end() || left->second.has_recovered) return;
  const PathSample& sample = left->second.sample;
  if (sample.source != source || sample.destination != destination) return;
  left->second.has_recovered = true;
  for (const fabric::NodeId nic : {source, destination}) nics_[nic].SetPath(sample, true, now);
  has_news_ = true;
}

double PathQuality::SlowestOf(const PathSample& sample) const {
  double slowest = capacities_bps_[sample.Links().front()];
  for (const std::uint32_t link : sample.Links()) {
    slowest = std::min(slowest, capacities_bps_[link]);
  }
  return slowest;
}

// The even share of a link is a lower bound of the max-min fair rate. A subflow that reaches it is
// as fast as it has to be, however fast others are.
void PathQuality::ComputeFractions(std::span<Entry* const> fresh) const {
  std::vector<double> shares(capacities_bps_.size());
  for (const Entry* entry : fresh) {
    for (const std::uint32_t link : entry->sample.Links()) shares[link] += entry->sample.share;
  }
  for (Entry* entry : fresh) {
    double expected = SlowestOf(entry->sample);
    for (const std::uint32_t link : entry->sample.Links()) {
      expected = std::min(expected, capacities_bps_[link] * entry->sample.share / shares[link]);
    }
    entry->fraction = expected > 0 ? std::min(1.0, entry->sample.bps / expected) : 1;
    entry->smoothed += std::exchange(entry->weight, 0) * (entry->fraction - entry->smoothed);
  }
}

PathQuality::Norms PathQuality::NormsOf(std::span<Entry* const> members) const {
  const auto norm = [&](auto value, auto counts) {
    std::vector<double> values;
    for (const Entry* entry : members) {
      if (counts(*entry)) values.push_back(value(*entry));
    }
    Norm result;
    if (values.size() <= options_.siblings) return result;
    result.median = Median(values);
    for (double& each : values) each = std::abs(each - result.median);
    result.deviation = kDeviationOfMad * Median(values);
    return result;
  };
  const auto always = [](const Entry&) { return true; };
  return {norm([](const Entry& entry) { return entry.fraction; }, always),
          norm([](const Entry& entry) { return entry.sample.retries_per_second; }, always),
          norm([](const Entry& entry) { return entry.sample.congestion_per_second; }, always),
          norm([](const Entry& entry) { return entry.sample.rtt_us; },
               [](const Entry& entry) { return entry.sample.rtt_us > 0; })};
}

bool PathQuality::IsSlower(double fraction, const Norms& norms) const {
  const Norm& rate = norms.fraction;
  const double margin =
      std::max(options_.deviations * rate.deviation, options_.rate_margin * rate.median);
  return fraction < rate.median - margin;
}

std::string PathQuality::SignsOf(const Entry& entry, const Norms& norms) const {
  std::string signs;
  const PathSample& sample = entry.sample;
  const auto is_more = [&](const char* name, double value, const Norm& norm, double margin) {
    if (value <= norm.median + std::max(options_.deviations * norm.deviation, margin)) return;
    signs += fmt::format(" {}={:.0f} siblings={:.0f}", name, value, norm.median);
  };
  is_more("retries_per_second", sample.retries_per_second, norms.retries, options_.retries_margin);
  is_more("congestion_per_second", sample.congestion_per_second, norms.congestion,
          options_.retries_margin);
  if (sample.rtt_us > 0 && norms.rtt.median > 0) {
    is_more("rtt_us", sample.rtt_us, norms.rtt,
            std::max(options_.rtt_margin * norms.rtt.median, options_.rtt_margin_us));
  }
  if (signs.empty()) return signs;
  return fmt::format("rate={:.2f} siblings={:.2f}{}", entry.fraction, norms.fraction.median, signs);
}

void PathQuality::JudgeClass(std::span<Entry* const> members) {
  if (members.size() <= options_.siblings) return;
  const Norms norms = NormsOf(members);
  for (Entry* entry : members) {
    if (!std::exchange(entry->is_new, false)) continue;
    std::string signs = IsSlower(entry->fraction, norms) ? SignsOf(*entry, norms) : std::string();
    if (!signs.empty()) {
      ++entry->bad_in_a_row;
      entry->quiet_in_a_row = 0;
      entry->signs = std::move(signs);
    } else if (!IsSlower(entry->smoothed, norms) || ++entry->quiet_in_a_row > options_.most_quiet) {
      entry->bad_in_a_row = entry->quiet_in_a_row = 0;
    }
  }
}

void PathQuality::NicHistory::SetPath(const PathSample& sample, bool is_bad, TimePoint now) {
  std::vector<fabric::LinkId> links = LinksOf(sample);
  std::erase_if(bad_paths, [&](const BadPath& path) { return path.links == links; });
  if (is_bad) bad_paths.push_back({std::move(links), now});
}

void PathQuality::NicHistory::Note(const Judged& judged, TimePoint now) {
  const bool is_bad = judged.bad_in_a_row > 0;
  SetPath(judged.sample, is_bad, now);
  ++(is_bad ? bad : good);
}

bool PathQuality::NicHistory::IsToBlame() const {
  if (bad <= good || bad_paths.size() < 2) return false;
  std::vector<fabric::LinkId> common = bad_paths.front().links;
  for (const BadPath& path : bad_paths) {
    std::erase_if(
        common, [&](fabric::LinkId link) { return !std::ranges::binary_search(path.links, link); });
  }
  return common.empty();
}

void PathQuality::JudgeNics(std::span<Entry* const> fresh, TimePoint now) {
  for (auto& [nic, history] : nics_) {
    history.bad = history.good = 0;
    std::erase_if(history.bad_paths,
                  [&](const BadPath& path) { return now - path.seen > options_.memory; });
  }
  for (const Entry* entry : fresh) {
    nics_[entry->sample.source].Note(*entry, now);
    nics_[entry->sample.destination].Note(*entry, now);
  }
  for (Entry* entry : fresh) {
    entry->accuses = entry->bad_in_a_row > 0 && !nics_.at(entry->sample.source).IsToBlame() &&
                     !nics_.at(entry->sample.destination).IsToBlame();
  }
  std::erase_if(nics_, [](const auto& nic) {
    return nic.second.bad + nic.second.good + nic.second.bad_paths.size() == 0;
  });
}

void PathQuality::JudgeLeft(TimePoint now) {
  std::erase_if(left_,
                [&](const auto& of) { return now - of.second.taken > options_.left_memory; });
  const auto is_to_blame = [&](fabric::NodeId nic) {
    const auto history = nics_.find(nic);
    return history != nics_.end() && history->second.IsToBlame();
  };
  for (auto& [subflow, left] : left_) {
    left.accuses = left.has_recovered && !is_to_blame(left.sample.source) &&
                   !is_to_blame(left.sample.destination);
  }
}

std::vector<const PathQuality::Judged*> PathQuality::Judge(TimePoint now) {
  has_news_ = false;
  // A subflow that pauses keeps its count on its path for as long as NICs are remembered.
  std::erase_if(samples_, [&](const auto& of) { return now - of.second.taken > options_.memory; });
  std::vector<Entry*> fresh;
  for (auto& [subflow, entry] : samples_) {
    if (now - entry.taken <= options_.freshness) fresh.push_back(&entry);
  }
  ComputeFractions(fresh);
  std::map<Class, std::vector<Entry*>> classes;
  for (const bool by_job : {true, false}) {
    classes.clear();
    for (Entry* entry : fresh) {
      const PathSample& sample = entry->sample;
      classes[{by_job ? sample.job : kAnyJob, sample.link_count, SlowestOf(sample)}].push_back(
          entry);
    }
    for (const auto& [of, members] : classes) JudgeClass(members);
  }
  JudgeNics(fresh, now);
  JudgeLeft(now);
  std::vector<const Judged*> judged(fresh.begin(), fresh.end());
  for (const auto& [subflow, left] : left_) {
    if (left.has_recovered) judged.push_back(&left);
  }
  return judged;
}

}  // namespace espalier::controller
