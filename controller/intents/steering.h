#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "controller/intents/intent.h"

namespace espalier::controller {

// Which flows operators let Espalier steer (Intents::steering, by the keys below).
//
// The switch, "all", goes before everything else: while it is off, no flow is steered, and what
// else is set is kept for later. Otherwise a flow is steered unless its job or its sending host is
// off; if one of these is on, or no percentage is set, it is steered, and else if its host belongs
// to the percentage of hosts that is steered.

constexpr std::string_view kSteeringSwitch = "all";
constexpr std::string_view kSteeringPercent = "percent";
std::string SteeringKeyOfHost(std::string_view host);  // "host h0"
std::string SteeringKeyOfJob(std::string_view job);    // "job train"

// The number of a host from 0 to 99 that decides to which percentages it belongs. It depends on the
// name alone, so that a growing percentage only adds hosts.
std::uint32_t SteeringBucket(std::string_view host);

// Answers for one set of intents, which must outlive it.
class SteeringRules {
 public:
  explicit SteeringRules(const IntentById& steering) : steering_(steering) {}

  // O(log intents) and, without intents, O(1).
  bool IsSteered(std::string_view host, std::string_view job) const;
  bool IsSwitchedOff() const { return IsOff(kSteeringSwitch); }
  std::uint32_t percent() const;  // of hosts; 100 without an intent
  // One sentence without a full stop, such as "steering is on for 10 % of the hosts"; empty if
  // everything is steered.
  std::string Describe() const;

 private:
  std::optional<bool> Set(std::string_view key) const;
  bool IsOff(std::string_view key) const { return Set(key) == false; }

  const IntentById& steering_;
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
