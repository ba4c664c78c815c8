#include "controller/operations/steering_edits.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace espalier::controller {
namespace {

constexpr std::uint32_t kAll = 100;

// Sets a key to this percentage, or renews it with what the request gives.
void Set(IntentById& steering, const std::string& key, std::uint32_t percent,
         const OperatorRequest& request, WallTime now) {
  const SteeringSetting setting{percent};
  const auto [found, is_new] = steering.try_emplace(key);
  Intent& intent = found->second;
  if (is_new || intent.value != IntentValue(setting)) {
    intent = {request.reason, request.actor, now, request.until, setting};
    return;
  }
  if (request.until || request.never_ends) intent.until = request.until;
  if (!request.reason.empty()) intent.reason = request.reason;
}

Result<void> Check(const fabric::Topology& topology, const SteeringScope& scope, bool on,
                   const OperatorRequest& request, WallTime now) {
  if (scope.percent && !(scope.hosts.empty() && scope.jobs.empty())) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "a percentage cannot be given together with hosts or jobs (give them in two steps)");
  }
  if (scope.percent && *scope.percent > kAll) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("percentage {} is out of range (choose 0 to 100)", *scope.percent));
  }
  if (request.until && (on || scope.percent)) {
    return Fail(ErrorCode::kInvalidArgument,
                "only `steering off` without a percentage takes an end time");
  }
  if (request.until && *request.until <= now) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the end time {} is in the past (the controller's clock says {})",
                            FormatWallTime(*request.until), FormatWallTime(now)));
  }
  if (std::ranges::find(scope.jobs, std::string()) != scope.jobs.end()) {
    return Fail(ErrorCode::kInvalidArgument, "the job's name is empty (name the job)");
  }
  for (const std::string& host : scope.hosts) {
    const bool is_known = std::ranges::any_of(topology.nodes(), [&](const fabric::Node& node) {
      return node.kind != fabric::NodeKind::kSwitch && fabric::HostOf(node) == host;
    });
    if (!is_known) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("there is no host \"{}\" (`espalier nodes` lists them)", host));
    }
  }
  return {};
}

void SetPercent(IntentById& steering, std::uint32_t percent, bool on,
                const OperatorRequest& request, WallTime now) {
  if (on) steering.erase(std::string(kSteeringSwitch));
  if (percent < kAll) return Set(steering, std::string(kSteeringPercent), percent, request, now);
  steering.erase(std::string(kSteeringPercent));
  std::erase_if(steering, [](const auto& member) {
    return member.second.value == IntentValue(SteeringSetting{kAll});
  });
}

}  // namespace

Result<Intents> ChangeSteeringIntent(const Intents& intents, const fabric::Topology& topology,
                                     const SteeringScope& scope, bool on,
                                     const OperatorRequest& request, WallTime now) {
  if (Result<void> right = Check(topology, scope, on, request, now); !right) {
    return Propagate(right);
  }
  Intents changed = intents;
  IntentById& steering = changed.steering;
  const HostRanks no_hosts;  // whether a host is steered is not asked here
  const SteeringRules present(intents.steering, no_hosts);
  const bool is_narrow = scope.percent || !scope.hosts.empty() || !scope.jobs.empty();
  if (is_narrow && present.IsSwitchedOff() && !(on && scope.percent)) {
    return Fail(
        ErrorCode::kFailedPrecondition,
        "steering is off for everything, so this would have no effect (turn everything on "
        "with `espalier steering on`, or a part with `espalier steering on --percent 0` and "
        "then by host or job)");
  }
  if (scope.percent) {
    const auto percent = static_cast<std::uint32_t>(*scope.percent);
    SetPercent(steering, on ? percent : kAll - percent, on, request, now);
  } else if (!is_narrow) {
    const std::string key(kSteeringSwitch);
    if (on) steering.erase(key);
    if (!on) Set(steering, key, 0, request, now);
  }
  const auto change = [&](const std::string& key) {
    if (on && present.percent() >= kAll) {
      steering.erase(key);
    } else {
      Set(steering, key, on ? kAll : 0, request, now);
    }
  };
  for (const std::string& host : scope.hosts) change(SteeringKeyOfHost(host));
  for (const std::string& job : scope.jobs) change(SteeringKeyOfJob(job));
  if (changed != intents) return changed;
  std::string still;
  if (on && !is_narrow && !intents.steering.empty()) {
    still = fmt::format(", but {} (`espalier steering` lists what is set)", present.Describe());
  }
  return Fail(ErrorCode::kAlreadyExists, fmt::format("steering is already {} for {}{}",
                                                     on ? "on" : "off", FormatScope(scope), still));
}

}  // namespace espalier::controller
