#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/metrics.h"
#include "controller/forests/job_forest.h"
#include "controller/planning/link_or_switch.h"

namespace espalier::controller {

// The forest that a job gets if one element fails, made before that.
struct BackupForest {
  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

  std::shared_ptr<const JobForest> forest;  // null: there is none then
  std::int64_t version = -1;                // of the topology, before the failure
  std::uint64_t others = 0;                 // digest of what other flows were taken to leave
  std::uint64_t changes = kUnknown;         // FlowPaths::changes when that was known to be so
};

// The forests for failures of single links and switches that jobs' plans go over. What a job sends
// most over comes first, in the making and for the memory.
//
// Thread safety: the controller's loop thread. Complexity: Next O(elements of all jobs), the rest
// O(log elements), and O(elements) where the memory is full.
class BackupForests {
 public:
  explicit BackupForests(Metrics& metrics, std::size_t max_bytes = std::size_t{256} << 20U);

  // What a job's plan goes over, and how much it sends over each. Forests for others are dropped.
  void SetDomains(const std::string& job, const std::map<LinkOrSwitch, double>& loads);
  void Forget(const std::string& job);

  struct Target {
    std::string job;
    LinkOrSwitch domain;
    bool is_missing = false;  // else what others leave may have changed since it was made
  };
  // What to make (or look at) next; none: all is as fresh as it can be.
  std::optional<Target> Next(std::int64_t version, std::uint64_t changes) const;
  // Keeps it if there is room, for which forests of less load go.
  void Put(const Target& target, BackupForest ready);
  // What others leave is as it was.
  void Confirm(const Target& target, std::uint64_t changes);
  // That which was made on this version of the topology; null: none.
  const BackupForest* Find(const std::string& job, LinkOrSwitch domain, std::int64_t version) const;

  struct Coverage {
    std::size_t elements = 0;  // that the job's plan goes over
    std::size_t ready = 0;     // of them, those that Find has a forest for
  };
  Coverage CoverageOf(const std::string& job, std::int64_t version) const;

  std::size_t size() const { return size_; }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    double load = 0;
    std::optional<BackupForest> ready;
    std::size_t bytes = 0;
  };
  void Drop(Entry& entry);
  void ShowSize();

  std::map<std::string, std::map<LinkOrSwitch, Entry>> jobs_;
  const std::size_t max_bytes_;
  std::size_t size_ = 0;
  std::size_t bytes_ = 0;
  double least_load_ = 0;  // of less there is no room
  Gauge& size_gauge_;
  Gauge& bytes_gauge_;
};

// Of what a forest takes in memory, in bytes.
std::size_t MemoryOf(const JobForest& forest);

}  // namespace espalier::controller
