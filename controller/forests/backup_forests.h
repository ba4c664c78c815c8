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

// The precomputed forest that a job takes when one failure domain fails.
struct BackupForest {
  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

  std::shared_ptr<const JobForest> forest;  // null: no forest exists after the failure
  std::int64_t version = -1;                // of the topology, before the failure
  std::uint64_t others = 0;                 // digest of the residual capacity that it assumes
  std::uint64_t changes = kUnknown;         // FlowPaths::changes when `others` was last confirmed
};

// The backup forests for the failures of single links and switches that job plans use. The domains
// that carry most of a job's data come first, in computation and when memory is short.
//
// Thread safety: the controller's loop thread. Complexity: Next O(domains of all jobs), the rest
// O(log domains), and O(domains) when the memory is full.
class BackupForests {
 public:
  explicit BackupForests(Metrics& metrics, std::size_t max_bytes = std::size_t{256} << 20U);

  // Sets the domains that a job's plan uses, with the load on each. Drops forests for other
  // domains.
  void SetDomains(const std::string& job, const std::map<LinkOrSwitch, double>& loads);
  void Forget(const std::string& job);

  struct Target {
    std::string job;
    LinkOrSwitch domain;
    bool is_missing = false;  // false: there is a forest, but the residual capacity may differ
  };
  // The forest to compute or to check next; none: all are up to date.
  std::optional<Target> Next(std::int64_t version, std::uint64_t changes) const;
  // Keeps the forest if there is room; forests for domains of less load make room.
  void Put(const Target& target, BackupForest ready);
  // The residual capacity has not changed since the forest was computed.
  void Confirm(const Target& target, std::uint64_t changes);
  // The forest that was computed on this version of the topology; null: none.
  const BackupForest* Find(const std::string& job, LinkOrSwitch domain, std::int64_t version) const;

  struct Coverage {
    std::size_t elements = 0;  // failure domains that the job's plan uses
    std::size_t ready = 0;     // of these, the ones with a forest
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
  double least_load_ = 0;  // there is no room for domains of no more load
  Gauge& size_gauge_;
  Gauge& bytes_gauge_;
};

// The memory that a forest takes, in bytes.
std::size_t MemoryOf(const JobForest& forest);

}  // namespace espalier::controller
