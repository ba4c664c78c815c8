#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/history/records.h"
#include "controller/history/slowest_flows.h"

namespace espalier::controller {

// The records of one moment or interval.
struct Sample {
  TimePoint begin;  // when the first sample of the interval was taken
  FabricRecord fabric;
  std::span<const LinkRecord> links;  // by index of the topology
  std::span<const JobRecord> jobs;
  std::span<const FlowRecord> flows{};
};

// A ring of samples of one resolution; the oldest makes room for the newest. Its size is fixed when
// it is made, but the system gives it memory only as it fills.
// Thread safety: one thread. The spans of a sample hold until the next Add.
class SampleRing {
 public:
  // `capacity`: samples; 0 keeps none. `links`, `jobs` and `flows` of each, the latter two at most.
  SampleRing(std::size_t capacity, std::size_t links, std::size_t jobs, std::size_t flows = 0);
  // Of one sample.
  static std::size_t BytesOf(std::size_t links, std::size_t jobs, std::size_t flows = 0);

  // Copies the sample, which must have `links` links; of too many jobs or flows the first stay.
  void Add(const Sample& sample);
  std::size_t capacity() const { return heads_.size(); }
  std::size_t size() const { return size_; }
  // 0 is the oldest.
  Sample At(std::size_t index) const;

 private:
  struct Head {
    TimePoint begin;
    FabricRecord fabric;
    std::uint32_t jobs = 0;
    std::uint32_t flows = 0;
  };
  std::size_t links_;
  std::size_t jobs_;
  std::size_t flows_;
  std::size_t first_ = 0;  // place of the oldest
  std::size_t size_ = 0;
  std::vector<Head> heads_;
  std::unique_ptr<LinkRecord[]> link_records_;
  std::unique_ptr<JobRecord[]> job_records_;
  std::unique_ptr<FlowRecord[]> flow_records_;
};

// One sample for those of an interval: means of traffic and rates, the largest load, the worst
// state, the last health and counts of flows, sums of what happened. The result is valid until the
// next call. Of flows the slowest of all samples stay, each as it was at its slowest.
// O(samples x links).
class SampleMerger {
 public:
  // `flows`: the most of the result.
  explicit SampleMerger(std::size_t flows = 0) : flows_(flows) {}
  Sample Merge(std::span<const Sample> samples, TimePoint begin);

 private:
  void MergeJobs(std::span<const Sample> samples);
  void MergeFlows(std::span<const Sample> samples);

  std::vector<LinkRecord> links_;
  std::vector<std::uint32_t> sums_;  // of uses, by direction
  std::vector<JobRecord> jobs_;
  SlowestFlows flows_;
};

}  // namespace espalier::controller
