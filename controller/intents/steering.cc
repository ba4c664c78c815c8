#include "controller/intents/steering.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace espalier::controller {
namespace {

constexpr std::string_view kHost = "host ";
constexpr std::string_view kJob = "job ";

// "2 hosts", "1 job".
std::string Counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string Joined(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, " and "));
}

}  // namespace

std::string SteeringKeyOfHost(std::string_view host) { return fmt::format("{}{}", kHost, host); }
std::string SteeringKeyOfJob(std::string_view job) { return fmt::format("{}{}", kJob, job); }

namespace {

std::uint64_t HashOf(std::string_view host) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, then the finalizer of MurmurHash3
  for (const char c : host) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  hash = (hash ^ (hash >> 33U)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33U)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33U);
}

}  // namespace

HostRanks::HostRanks(const std::set<std::string>& hosts) {
  std::vector<std::pair<std::uint64_t, std::string>> ordered;
  for (const std::string& host : hosts) ordered.emplace_back(HashOf(host), host);
  std::ranges::sort(ordered);
  for (std::size_t rank = 0; rank < ordered.size(); ++rank) {
    ranks_.emplace(ordered[rank].second, rank);
  }
}

bool HostRanks::IsWithin(std::string_view host, std::uint32_t percent) const {
  const auto found = ranks_.find(host);
  return found != ranks_.end() && found->second < (ranks_.size() * percent + 50) / 100;
}

std::optional<bool> SteeringRules::Set(std::string_view key) const {
  const auto found = steering_.find(std::string(key));
  if (found == steering_.end()) return std::nullopt;
  const auto* const setting = std::get_if<SteeringSetting>(&found->second.value);
  if (setting == nullptr) return std::nullopt;
  return setting->percent > 0;
}

std::uint32_t SteeringRules::percent() const {
  const auto found = steering_.find(std::string(kSteeringPercent));
  if (found == steering_.end()) return 100;
  const auto* const setting = std::get_if<SteeringSetting>(&found->second.value);
  return setting == nullptr ? 100 : setting->percent;
}

bool SteeringRules::IsSteered(std::string_view host, std::string_view job) const {
  if (observes_) return false;
  if (steering_.empty()) return true;
  if (IsSwitchedOff()) return false;
  const auto of_host = Set(SteeringKeyOfHost(host));
  const auto of_job = Set(SteeringKeyOfJob(job));
  if (of_host == false || of_job == false) return false;
  if (of_host == true || of_job == true) return true;
  return percent() >= 100 || ranks_.IsWithin(host, percent());
}

std::string SteeringRules::Describe() const {
  if (observes_) {
    return "the controller only observes (mode in its configuration): every flow takes plain ECMP";
  }
  if (IsSwitchedOff()) return "steering is off: every flow takes plain ECMP";
  struct Count {
    std::size_t hosts = 0;
    std::size_t jobs = 0;
  };
  Count on;
  Count off;
  for (const auto& [key, intent] : steering_) {
    Count& count = Set(key) == false ? off : on;
    if (key.starts_with(kHost)) ++count.hosts;
    if (key.starts_with(kJob)) ++count.jobs;
  }
  const auto parts_of = [](const Count& count) {
    std::vector<std::string> parts;
    if (count.hosts > 0) parts.push_back(Counted(count.hosts, "host"));
    if (count.jobs > 0) parts.push_back(Counted(count.jobs, "job"));
    return parts;
  };
  const std::vector<std::string> off_parts = parts_of(off);
  if (percent() >= 100) {
    return off_parts.empty() ? "" : fmt::format("steering is off for {}", Joined(off_parts));
  }
  std::string text = fmt::format("steering is on for {} % of the hosts", percent());
  if (const auto parts = parts_of(on); !parts.empty())
    text += fmt::format(", and {}", Joined(parts));
  if (!off_parts.empty()) text += fmt::format("; off for {}", Joined(off_parts));
  return text;
}

std::string FormatScope(const SteeringScope& scope) {
  if (scope.percent) return fmt::format("{} {}", kSteeringPercent, *scope.percent);
  std::vector<std::string> keys;
  for (const std::string& host : scope.hosts) keys.push_back(SteeringKeyOfHost(host));
  for (const std::string& job : scope.jobs) keys.push_back(SteeringKeyOfJob(job));
  return keys.empty() ? std::string(kSteeringSwitch) : fmt::format("{}", fmt::join(keys, ", "));
}

}  // namespace espalier::controller
