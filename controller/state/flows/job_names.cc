#include "controller/state/flows/job_names.h"

#include <utility>

#include "common/base/check.h"

namespace espalier::controller {

std::uint32_t JobNames::Intern(const std::string& name, std::size_t host) {
  if (name.empty()) return 0;
  const auto [found, inserted] = by_name_.try_emplace(name, 0);
  if (!inserted) return found->second;
  std::uint32_t job = static_cast<std::uint32_t>(entries_.size());
  if (!free_.empty()) {
    job = free_.back();
    free_.pop_back();
  } else {
    entries_.emplace_back();
  }
  found->second = job;
  entries_[job] = {.name = std::make_shared<const std::string>(name), .host = host};
  BecomeIdle(job);
  return job;
}

void JobNames::Begin(std::uint32_t job) {
  ESPALIER_CHECK(job < entries_.size(), "job={}", job);
  if (entries_[job].open++ == 0) BecomeBusy(job);
}

void JobNames::End(std::uint32_t job) {
  ESPALIER_CHECK(entries_[job].open > 0, "job={}", job);
  if (--entries_[job].open == 0) BecomeIdle(job);
}

void JobNames::BecomeBusy(std::uint32_t job) {
  Entry& entry = entries_[job];
  if (std::exchange(entry.is_idle, false)) idle_of_[entry.host].erase(entry.place);
}

void JobNames::BecomeIdle(std::uint32_t job) {
  if (job == 0) return;
  Entry& entry = entries_[job];
  std::list<std::uint32_t>& idle = idle_of_[entry.host];
  entry.is_idle = true;
  entry.place = idle.insert(idle.end(), job);
  if (idle.size() <= kMaxIdle) return;
  const std::uint32_t longest = idle.front();
  idle.pop_front();
  by_name_.erase(*entries_[longest].name);
  entries_[longest].is_idle = false;
  forgotten_.push_back(longest);
}

std::vector<std::uint32_t> JobNames::TakeForgotten() {
  for (const std::uint32_t job : forgotten_) entries_[job] = {.name = entries_[0].name};
  free_.insert(free_.end(), forgotten_.begin(), forgotten_.end());
  return std::exchange(forgotten_, {});
}

std::vector<std::string> JobNames::All() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const Entry& entry : entries_) names.push_back(*entry.name);
  return names;
}

}  // namespace espalier::controller
