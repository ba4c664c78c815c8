#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "controller/intents/intent.h"
#include "controller/settings/options.h"

namespace espalier::controller {

// Applies the policies (Intents::policies) to the options, and the weights of jobs
// (Intents::weights) to lists of jobs.

// `name` is one of PolicyNames, and the value one that ParsePolicy gives for it.
void SetPolicy(ControllerOptions& options, std::string_view name, const PolicyValue& value);
PolicyValue PolicyOf(const ControllerOptions& options, std::string_view name);
// The configured options, overridden by the policies that operators have set.
ControllerOptions WithPolicies(ControllerOptions configured, const IntentById& policies);

constexpr std::uint64_t kMaxWeight = 1'000;
// The weights by index of `jobs`, 1 without an intent; empty if all are 1.
std::vector<std::uint32_t> WeightsOf(std::span<const std::string> jobs, const IntentById& weights);

}  // namespace espalier::controller
