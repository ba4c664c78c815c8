#include "controller/settings/policies.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <variant>

#include "common/base/check.h"

namespace espalier::controller {

namespace {

// Where the value of a policy is in the options.
struct Row {
  std::string_view name;
  PolicyValue (*get)(const ControllerOptions& options);
  void (*set)(ControllerOptions& options, const PolicyValue& value);
};

// Counts of any type are policies of 64 bits.
template <typename T>
using Held = std::conditional_t<std::integral<T> && !std::same_as<T, bool>, std::int64_t, T>;

template <typename T, T ControllerOptions::*kMember>
constexpr Row RowOf(std::string_view name) {
  return {.name = name,
          .get = [](const ControllerOptions& options) -> PolicyValue {
            return static_cast<Held<T>>(options.*kMember);
          },
          .set =
              [](ControllerOptions& options, const PolicyValue& value) {
                options.*kMember = static_cast<T>(std::get<Held<T>>(value));
              }};
}

constexpr std::array kRows = {
    RowOf<Algorithm, &ControllerOptions::algorithm>("algorithm"),
    RowOf<std::size_t, &ControllerOptions::moves_per_start>("moves_per_start"),
    RowOf<std::int64_t, &ControllerOptions::moved_bytes_per_start>("moved_bytes_per_start"),
    RowOf<RateLimits, &ControllerOptions::limit_rates>("limit_rates"),
    RowOf<bool, &ControllerOptions::plan_ahead>("plan_ahead"),
    RowOf<Shares, &ControllerOptions::shares>("shares"),
};

const Row& Find(std::string_view name) {
  const auto* const row = std::ranges::find(kRows, name, &Row::name);
  ESPALIER_CHECK(row != kRows.end());
  return *row;
}

}  // namespace

void SetPolicy(ControllerOptions& options, std::string_view name, const PolicyValue& value) {
  Find(name).set(options, value);
}

PolicyValue PolicyOf(const ControllerOptions& options, std::string_view name) {
  return Find(name).get(options);
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
