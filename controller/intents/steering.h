#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "controller/intents/intent.h"

namespace espalier::controller {

// Which flows operators let Espalier steer (Intents::steering, by the keys below).
//
// A controller that observes (ControllerOptions::observes) steers no flow, whatever is set. The
// switch, "all", goes before everything else: while it is off, no flow is steered, and what else is
// set is kept for later. Otherwise a flow is steered unless its job or its sending host is
// off; if one of these is on, or no percentage is set, it is steered, and else if its host belongs
// to the percentage of hosts that is steered.

constexpr std::string_view kSteeringSwitch = "all";
constexpr std::string_view kSteeringPercent = "percent";
std::string SteeringKeyOfHost(std::string_view host);  // "host h0"
std::string SteeringKeyOfJob(std::string_view job);    // "job train"

// Which hosts belong to a percentage: those whose names have the smallest hashes, as many as come
// nearest to it. A growing percentage only adds hosts.
class HostRanks {
 public:
  // `hosts`: all hosts of the fabric. O(hosts log hosts).
  HostRanks() = default;
  explicit HostRanks(const std::set<std::string>& hosts);
  // False for a host that is not among them. O(log hosts).
  bool IsWithin(std::string_view host, std::uint32_t percent) const;

 private:
  std::map<std::string, std::size_t, std::less<>> ranks_;
};

// Answers for one set of intents. Both must outlive it.
class SteeringRules {
 public:
  SteeringRules(const IntentById& steering, const HostRanks& ranks, bool observes = false)
      : steering_(steering), ranks_(ranks), observes_(observes) {}

  // O(log intents) and, without intents, O(1).
  bool IsSteered(std::string_view host, std::string_view job) const;
  bool IsSwitchedOff() const { return IsOff(kSteeringSwitch); }
  std::uint32_t percent() const;  // of hosts; 100 without an intent
  bool observes() const { return observes_; }
  // One sentence without a full stop, such as "steering is on for 10 % of the hosts"; empty if
  // everything is steered.
  std::string Describe() const;

 private:
  std::optional<bool> Set(std::string_view key) const;
  bool IsOff(std::string_view key) const { return Set(key) == false; }

  const IntentById& steering_;
  const HostRanks& ranks_;
  bool observes_;
};

// What a change of steering is for. With nothing given, it is the switch.
struct SteeringScope {
  std::span<const std::string> hosts;
  std::span<const std::string> jobs;
  std::optional<std::uint64_t> percent;  // of hosts that are to be on or off
};
// "all", "percent 10", "host h0, job train", ...
std::string FormatScope(const SteeringScope& scope);

}  // namespace espalier::controller
