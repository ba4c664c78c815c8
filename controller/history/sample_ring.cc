#include "controller/history/sample_ring.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

namespace espalier::controller {
namespace {

FabricRecord MergeFabric(std::span<const Sample> samples) {
  FabricRecord merged = samples.back().fabric;  // the counts of flows, agents and links, health
  merged.bps = 0;
  merged.max_load = merged.fair_load = merged.max_use = merged.round_excess = 0;
  merged.moves = merged.failures = merged.actions = merged.rounds = 0;
  merged.most_loaded = merged.most_used = -1;
  for (const Sample& sample : samples) {
    const FabricRecord& one = sample.fabric;
    merged.bps += one.bps / static_cast<float>(samples.size());
    if (one.max_load > merged.max_load) {
      merged.max_load = one.max_load;
      merged.most_loaded = one.most_loaded;
    }
    if (one.max_use > merged.max_use) {
      merged.max_use = one.max_use;
      merged.most_used = one.most_used;
    }
    merged.fair_load = std::max(merged.fair_load, one.fair_load);
    merged.without_path = std::max(merged.without_path, one.without_path);
    merged.on_dead_links = std::max(merged.on_dead_links, one.on_dead_links);
    merged.links_off = std::max(merged.links_off, one.links_off);
    merged.health = std::max(merged.health, one.health);
    merged.moves += one.moves;
    merged.failures += one.failures;
    merged.actions += one.actions;
    merged.rounds += one.rounds;
    merged.round_excess = std::max(merged.round_excess, one.round_excess);
  }
  return merged;
}

// Adds a record of the job; means of rounds are sums until Divide.
void AddTo(JobRecord& sum, const JobRecord& one) {
  sum.flows = std::max(sum.flows, one.flows);
  sum.without_path = std::max(sum.without_path, one.without_path);
  sum.bps += one.bps;
  if (one.slowest_bps > 0) {
    sum.slowest_bps =
        sum.slowest_bps > 0 ? std::min(sum.slowest_bps, one.slowest_bps) : one.slowest_bps;
  }
  sum.round_seconds += one.round_seconds * static_cast<float>(one.rounds);
  sum.ideal_seconds += one.ideal_seconds * static_cast<float>(one.rounds);
  sum.longest_seconds = std::max(sum.longest_seconds, one.longest_seconds);
  sum.rounds += one.rounds;
}

}  // namespace

SampleRing::SampleRing(std::size_t capacity, std::size_t links, std::size_t jobs, std::size_t flows)
    : links_(links),
      jobs_(jobs),
      flows_(flows),
      heads_(capacity),
      link_records_(std::make_unique_for_overwrite<LinkRecord[]>(capacity * links)),
      job_records_(std::make_unique_for_overwrite<JobRecord[]>(capacity * jobs)),
      flow_records_(std::make_unique_for_overwrite<FlowRecord[]>(capacity * flows)) {}

std::size_t SampleRing::BytesOf(std::size_t links, std::size_t jobs, std::size_t flows) {
  return sizeof(Head) + links * sizeof(LinkRecord) + jobs * sizeof(JobRecord) +
         flows * sizeof(FlowRecord);
}

void SampleRing::Add(const Sample& sample) {
  if (heads_.empty()) return;
  const std::size_t place = (first_ + size_) % heads_.size();
  if (size_ == heads_.size()) {
    first_ = (first_ + 1) % heads_.size();
  } else {
    ++size_;
  }
  const std::size_t jobs = std::min(jobs_, sample.jobs.size());
  const std::size_t flows = std::min(flows_, sample.flows.size());
  heads_[place] = {sample.begin, sample.fabric, static_cast<std::uint32_t>(jobs),
                   static_cast<std::uint32_t>(flows)};
  std::ranges::copy(sample.links, link_records_.get() + place * links_);
  std::ranges::copy(sample.jobs.first(jobs), job_records_.get() + place * jobs_);
  std::ranges::copy(sample.flows.first(flows), flow_records_.get() + place * flows_);
}

Sample SampleRing::At(std::size_t index) const {
  const std::size_t place = (first_ + index) % heads_.size();
  const Head& head = heads_[place];
  return {head.begin,
          head.fabric,
          {link_records_.get() + place * links_, links_},
          {job_records_.get() + place * jobs_, head.jobs},
          {flow_records_.get() + place * flows_, head.flows}};
}

Sample SampleMerger::Merge(std::span<const Sample> samples, TimePoint begin) {
  const std::size_t links = samples.front().links.size();
  links_.assign(links, LinkRecord{});
  sums_.assign(2 * links, 0);
  for (const Sample& sample : samples) {
    for (std::size_t i = 0; i < links; ++i) {
      const LinkRecord& one = sample.links[i];
      LinkRecord& merged = links_[i];
      merged.state = std::max(merged.state, one.state);
      for (const std::size_t side : {0U, 1U}) {
        merged.load[side] = std::max(merged.load[side], one.load[side]);
        sums_[2 * i + side] += one.use[side];
      }
    }
  }
  const auto count = static_cast<std::uint32_t>(samples.size());
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const std::uint32_t mean = sums_[i] == 0 ? 0 : std::max(1U, (sums_[i] + count / 2) / count);
    links_[i / 2].use[i % 2] = static_cast<std::uint8_t>(mean);
  }
  MergeJobs(samples);
  MergeFlows(samples);
  return {begin, MergeFabric(samples), links_, jobs_, flows_.flows()};
}

void SampleMerger::MergeFlows(std::span<const Sample> samples) {
  using Key = std::tuple<std::uint32_t, std::int32_t, std::int32_t, std::uint16_t, std::uint8_t>;
  std::map<Key, FlowRecord> slowest;
  for (const Sample& sample : samples) {
    for (const FlowRecord& one : sample.flows) {
      const Key key{one.job, one.source, one.destination, one.port, one.protocol};
      const auto [found, is_new] = slowest.try_emplace(key, one);
      if (!is_new && one.bps < found->second.bps) found->second = one;
    }
  }
  flows_.Clear();
  for (const auto& [key, flow] : slowest) flows_.Offer(flow);
}

void SampleMerger::MergeJobs(std::span<const Sample> samples) {
  std::map<std::uint32_t, JobRecord> sums;
  for (const Sample& sample : samples) {
    for (const JobRecord& one : sample.jobs) {
      JobRecord& sum = sums[one.job];
      sum.job = one.job;
      AddTo(sum, one);
    }
  }
  jobs_.clear();
  for (auto& [number, sum] : sums) {
    sum.bps /= static_cast<float>(samples.size());
    if (sum.rounds > 0) {
      sum.round_seconds /= static_cast<float>(sum.rounds);
      sum.ideal_seconds /= static_cast<float>(sum.rounds);
    }
    jobs_.push_back(sum);
  }
  // A ring keeps the first.
  std::ranges::stable_sort(jobs_, std::greater<>(), &JobRecord::flows);
}

}  // namespace espalier::controller
