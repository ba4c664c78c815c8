#include "controller/settings/policies.h"

#include <algorithm>
#include <cstddef>
#include <variant>

#include "common/base/check.h"

namespace espalier::controller {

void SetPolicy(ControllerOptions& options, std::string_view name, const PolicyValue& value) {
  if (name == kAlgorithm) options.algorithm = std::get<Algorithm>(value);
  if (name == kLimitRates) options.limit_rates = std::get<RateLimits>(value);
  if (name == kPlanAhead) options.plan_ahead = std::get<bool>(value);
  if (name == kShares) options.shares = std::get<Shares>(value);
  if (name == kMovesPerStart) {
    options.moves_per_start = static_cast<std::size_t>(std::get<std::int64_t>(value));
  }
  if (name == kMovedBytesPerStart) options.moved_bytes_per_start = std::get<std::int64_t>(value);
}

PolicyValue PolicyOf(const ControllerOptions& options, std::string_view name) {
  if (name == kAlgorithm) return options.algorithm;
  if (name == kLimitRates) return options.limit_rates;
  if (name == kPlanAhead) return options.plan_ahead;
  if (name == kShares) return options.shares;
  if (name == kMovesPerStart) return static_cast<std::int64_t>(options.moves_per_start);
  ESPALIER_CHECK(name == kMovedBytesPerStart);
  return options.moved_bytes_per_start;
}

ControllerOptions WithPolicies(ControllerOptions configured, const IntentById& policies) {
  for (const auto& [name, intent] : policies) {
    const auto* const value = std::get_if<PolicyValue>(&intent.value);
    if (value != nullptr) SetPolicy(configured, name, *value);
  }
  return configured;
}

std::vector<std::uint32_t> WeightsOf(std::span<const std::string> jobs, const IntentById& weights) {
  std::vector<std::uint32_t> by_job(jobs.size(), 1);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto found = weights.find(jobs[i]);
    if (found == weights.end()) continue;
    const auto* const weight = std::get_if<JobWeight>(&found->second.value);
    if (weight != nullptr) by_job[i] = weight->value;
  }
  if (std::all_of(by_job.begin(), by_job.end(), [](std::uint32_t weight) { return weight == 1; })) {
    return {};
  }
  return by_job;
}

}  // namespace espalier::controller
