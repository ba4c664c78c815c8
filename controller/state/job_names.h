#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace espalier::controller {

// Numbers for the names of jobs, as hosts report them. A name keeps its number while the job has
// open flows, and then for as long as less than kMaxIdle others that the same host named first
// have gone idle after it: a host that invents names makes room by its own.
//
// Number 0 is the job without a name, and never forgotten. A forgotten number is used again once it
// was taken (TakeForgotten), so that whoever keeps something by it can let go first.
// Memory: O(open flows + hosts x kMaxIdle). Complexity: O(1). Thread safety: one thread.
class JobNames {
 public:
  static constexpr std::size_t kMaxIdle = 64;

  JobNames() { entries_.push_back({.name = std::make_shared<const std::string>()}); }

  // `host`: a dense number.
  std::uint32_t Intern(const std::string& name, std::size_t host);
  // A flow of the job (or an edge of its forest) is open, or not any more.
  void Begin(std::uint32_t job);
  void End(std::uint32_t job);
  std::vector<std::uint32_t> TakeForgotten();

  const std::string& At(std::uint32_t job) const { return *entries_[job].name; }
  // For what outlives the job.
  std::shared_ptr<const std::string> Shared(std::uint32_t job) const { return entries_[job].name; }
  std::size_t NamedBy(std::uint32_t job) const { return entries_[job].host; }
  // One above the highest number ever in use.
  std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }
  std::vector<std::string> All() const;  // by number; "" where there is none

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
