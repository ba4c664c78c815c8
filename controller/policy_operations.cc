// Weights of jobs and policies, as operators set them.
#include <fmt/format.h>

#include <utility>

#include "controller/controller.h"
#include "controller/settings/policies.h"

namespace espalier::controller {
namespace {

// The intent takes its place, or (none) the place becomes empty.
Result<void> Replace(IntentById& intents, const std::string& id,
                     const std::optional<Intent>& intent) {
  const auto present = intents.find(id);
  if (!intent && present == intents.end()) {
    return Fail(ErrorCode::kAlreadyExists, fmt::format("nothing was said of {}", id));
  }
  if (intent && present != intents.end() && present->second.detail == intent->detail &&
      present->second.until == intent->until) {
    return Fail(ErrorCode::kAlreadyExists, fmt::format("{} is {} already", id, intent->detail));
  }
  if (intent) {
    intents[id] = *intent;
  } else {
    intents.erase(present);
  }
  return {};
}

}  // namespace

Result<void> Controller::CheckEnd(const OperatorRequest& request, bool can_end,
                                  std::string_view verb) const {
  if (!request.until) return {};
  if (!can_end) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("only what is failed, drained or set can have an end: {} takes no time", verb));
  }
  if (*request.until > WallNow()) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is past: the clock says {}", FormatWallTime(*request.until),
                          FormatWallTime(WallNow())));
}

Result<Intents> Controller::WithSetting(IntentById Intents::*settings, const std::string& id,
                                        const std::optional<std::string>& value,
                                        const OperatorRequest& request) const {
  if (Result<void> right = CheckEnd(request, value.has_value(), "to take it back"); !right) {
    return Propagate(right);
  }
  std::optional<Intent> intent;
  if (value) {
    intent = Intent{request.reason, request.actor, WallNow(), request.until, *value};
  }
  Intents changed = state_.intents;
  if (Result<void> replaced = Replace(changed.*settings, id, intent); !replaced) {
    return Propagate(replaced);
  }
  return changed;
}

void Controller::ChangeWeight(const std::string& job, std::uint64_t weight, OperatorRequest request,
                              ActionDone done) {
  Submit({"set weight", fmt::format("{}={}", job, weight), request, "weight_set",
          fmt::format("job={} weight={}", job, weight),
          [this, job, weight, request = std::move(request)]() -> Result<Intents> {
            if (job.empty())
              return Fail(ErrorCode::kInvalidArgument, "which job? (it has no name)");
            if (weight < 1 || weight > kMostWeight) {
              return Fail(ErrorCode::kInvalidArgument,
                          fmt::format("weight: {} (it is 1 to {})", weight, kMostWeight));
            }
            // All have 1 without a word.
            std::optional<std::string> value;
            if (weight > 1) value = fmt::format("{}", weight);
            return WithSetting(&Intents::weights, job, value, request);
          },
          std::move(done)});
}

void Controller::ChangePolicy(const std::string& name, std::optional<std::string> value,
                              OperatorRequest request, ActionDone done) {
  const std::string target = value ? fmt::format("{}={}", name, *value) : name;
  Submit({value ? "set policy" : "reset policy", target, request,
          value ? "policy_set" : "policy_reset", fmt::format("policy={}", target),
          [this, name, value, request = std::move(request)]() -> Result<Intents> {
            ControllerOptions trial = configured_;
            Result<void> possible = SetPolicy(trial, name, value.value_or(""));
            if (!possible && (value || possible.error().code == ErrorCode::kNotFound)) {
              return Propagate(possible);
            }
            return WithSetting(&Intents::policies, name, value, request);
          },
          std::move(done)});
}

void Controller::ApplyPolicies() {
  const bool limited_rates = options_.limit_rates;
  options_ = WithPolicies(configured_, state_.intents.policies);
  if (limited_rates && !options_.limit_rates) rate_planner_.LiftLimits();
}

void Controller::TakeConfiguration(const ControllerOptions& options, const std::string& text) {
  for (const std::string_view name : PolicyNames()) {
    static_cast<void>(SetPolicy(configured_, name, PolicyValue(options, name)));
  }
  configured_.lease = options.lease;
  configured_.verify_interval = options.verify_interval;
  configured_.agent_limits = options.agent_limits;
  for (std::size_t i = 0; i < state_.agents.size(); ++i) {
    state_.agents.At(AgentId(static_cast<std::int32_t>(i))).allowance.reset();  // by the new limits
  }
  ApplyPolicies();
  RecordEvent("reloaded", text);
}

}  // namespace espalier::controller
