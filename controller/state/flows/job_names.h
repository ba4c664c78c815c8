#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace espalier::controller {

// Numbers the job names that hosts report. A name keeps its number while the job has open flows.
// After that, it is forgotten once kMaxIdle other jobs that the same host named first have become
// idle later. A host that invents names thus displaces only its own.
//
// Number 0 is the job without a name and is never forgotten. A forgotten number is reused only
// after TakeForgotten has returned it, so that callers can drop what they keep under it.
// Memory: O(open flows + hosts x kMaxIdle). Complexity: O(1). Thread safety: one thread.
class JobNames {
 public:
  static constexpr std::size_t kMaxIdle = 64;

  JobNames() { entries_.push_back({.name = std::make_shared<const std::string>()}); }

  // `host`: a dense number.
  std::uint32_t Intern(const std::string& name, std::size_t host);
  // A flow of the job, or an edge of its forest, is opened (Begin) or closed (End).
  void Begin(std::uint32_t job);
  void End(std::uint32_t job);
  std::vector<std::uint32_t> TakeForgotten();

  const std::string& At(std::uint32_t job) const { return *entries_[job].name; }
  // For users that outlive the job.
  std::shared_ptr<const std::string> Shared(std::uint32_t job) const { return entries_[job].name; }
  std::size_t NamedBy(std::uint32_t job) const { return entries_[job].host; }
  // The highest number ever in use, plus one.
  std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }
  std::vector<std::string> All() const;  // by number; "": not in use

 private:
  struct Entry {
    std::shared_ptr<const std::string> name;
    std::size_t host = 0;
    std::size_t open = 0;  // flows
    bool is_idle = false;
    std::list<std::uint32_t>::iterator place{};  // in idle_of_, while it is idle
  };

  void BecomeIdle(std::uint32_t job);
  void BecomeBusy(std::uint32_t job);

  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::uint32_t> by_name_;
  std::unordered_map<std::size_t, std::list<std::uint32_t>> idle_of_;  // by host, longest first
  std::vector<std::uint32_t> forgotten_;
  std::vector<std::uint32_t> free_;
};

}  // namespace espalier::controller
