#include "controller/forests/backup_forests.h"

#include <algorithm>
#include <utility>

namespace espalier::controller {

std::size_t MemoryOf(const JobForest& forest) {
  std::size_t bytes = sizeof(JobForest);
  bytes += forest.program.MemoryBytes();
  bytes += forest.edges.size() * sizeof(TreeEdge);
  for (const algorithms::TreeConnections& tree : forest.tree_classes) {
    bytes += sizeof(tree) + tree.connections.size() * sizeof(std::int32_t);
  }
  return bytes + forest.nics.size() * sizeof(fabric::NodeId);
}

BackupForests::BackupForests(Metrics& metrics, std::size_t max_bytes)
    : max_bytes_(max_bytes),
      size_gauge_(
          metrics.MakeGauge("espalier_forest_failure_plans",
                            "Backup forests that are ready for the failure of a link or switch")),
      bytes_gauge_(metrics.MakeGauge("espalier_forest_failure_plan_bytes",
                                     "Memory used by backup forests, in bytes")) {}

void BackupForests::ShowSize() {
  size_gauge_.Set(static_cast<double>(size_));
  bytes_gauge_.Set(static_cast<double>(bytes_));
}

void BackupForests::Drop(Entry& entry) {
  if (!entry.ready) return;
  --size_;
  bytes_ -= entry.bytes;
  entry.ready.reset();
  entry.bytes = 0;
}

void BackupForests::SetDomains(const std::string& job,
                               const std::map<LinkOrSwitch, double>& loads) {
  std::map<LinkOrSwitch, Entry>& entries = jobs_[job];
  for (auto entry = entries.begin(); entry != entries.end();) {
    const auto next = std::next(entry);
    if (!loads.contains(entry->first)) {
      Drop(entry->second);
      entries.erase(entry);
    }
    entry = next;
  }
  for (const auto& [domain, load] : loads) entries[domain].load = load;
  least_load_ = 0;
  ShowSize();
}

void BackupForests::Forget(const std::string& job) {
  SetDomains(job, {});
  jobs_.erase(job);
}

std::optional<BackupForests::Target> BackupForests::Next(std::int64_t version,
                                                         std::uint64_t changes) const {
  std::optional<Target> next;
  double most = 0;
  for (const auto& [job, entries] : jobs_) {
    for (const auto& [domain, entry] : entries) {
      const bool is_missing = !entry.ready || entry.ready->version != version;
      if (!is_missing && entry.ready->changes == changes) continue;
      if (!entry.ready && entry.load <= least_load_) continue;
      const bool comes_first = !next || is_missing > next->is_missing ||
                               (is_missing == next->is_missing && entry.load > most);
      if (!comes_first) continue;
      next = {job, domain, is_missing};
      most = entry.load;
    }
  }
  return next;
}

void BackupForests::Put(const Target& target, BackupForest ready) {
  const auto job = jobs_.find(target.job);
  if (job == jobs_.end()) return;
  const auto found = job->second.find(target.domain);
  if (found == job->second.end()) return;
  Entry& entry = found->second;
  Drop(entry);
  entry.bytes = sizeof(Entry) + (ready.forest ? MemoryOf(*ready.forest) : 0);
  entry.ready = std::move(ready);
  ++size_;
  bytes_ += entry.bytes;
  while (bytes_ > max_bytes_) {
    Entry* least = &entry;
    for (auto& [name, entries] : jobs_) {
      for (auto& [domain, other] : entries) {
        if (other.ready && other.load < least->load) least = &other;
      }
    }
    least_load_ = std::max(least_load_, least->load);
    Drop(*least);
  }
  ShowSize();
}

void BackupForests::Confirm(const Target& target, std::uint64_t changes) {
  const auto job = jobs_.find(target.job);
  if (job == jobs_.end()) return;
  const auto found = job->second.find(target.domain);
  if (found != job->second.end() && found->second.ready) found->second.ready->changes = changes;
}

const BackupForest* BackupForests::Find(const std::string& job, LinkOrSwitch domain,
                                        std::int64_t version) const {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return nullptr;
  const auto found = known->second.find(domain);
  if (found == known->second.end() || !found->second.ready) return nullptr;
  return found->second.ready->version == version ? &*found->second.ready : nullptr;
}

BackupForests::Coverage BackupForests::CoverageOf(const std::string& job,
                                                  std::int64_t version) const {
  Coverage coverage;
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return coverage;
  for (const auto& [domain, entry] : known->second) {
    ++coverage.elements;
    const bool is_ready = entry.ready && entry.ready->version == version && entry.ready->forest;
    coverage.ready += is_ready ? 1 : 0;
  }
  return coverage;
}

}  // namespace espalier::controller
