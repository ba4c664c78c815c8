#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "controller/intents/intent.h"
#include "controller/settings/options.h"

namespace espalier::controller {

// Policies as options, and the weights of jobs: what operators say of the way that flows are placed
// (Intents::policies, Intents::weights).

// `name` is one of PolicyNames, and the value one that ParsePolicy gives for it.
void SetPolicy(ControllerOptions& options, std::string_view name, const PolicyValue& value);
PolicyValue PolicyOf(const ControllerOptions& options, std::string_view name);
// The options of the configuration with what operators have said instead.
ControllerOptions WithPolicies(ControllerOptions configured, const IntentById& policies);

constexpr std::uint64_t kMaxWeight = 1'000;
// By index of `jobs`, 1 where nothing was said; empty where that is so of all of them.
std::vector<std::uint32_t> WeightsOf(std::span<const std::string> jobs, const IntentById& weights);

}  // namespace espalier::controller
