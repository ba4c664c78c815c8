#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "controller/settings/options.h"
#include "controller/store/store.h"

namespace espalier::controller {

// What operators may say of the way that flows are placed while the controller runs: policies, and
// the weights of jobs. Both are intents (Intents::policies, Intents::weights) whose `detail` is the
// value as text, as the functions here read and write it.

// The options that are policies, by their names in the configuration file.
std::span<const std::string_view> PolicyNames();

// Errors: kNotFound (no policy has that name), kInvalidArgument (it takes no such value); both with
// what there is.
Result<void> SetPolicy(ControllerOptions& options, std::string_view name, std::string_view value);
// As SetPolicy takes it; `name` is one of PolicyNames.
std::string PolicyValue(const ControllerOptions& options, std::string_view name);
// The options of the configuration with what operators have said instead. What SetPolicy refuses
// changes nothing.
ControllerOptions WithPolicies(ControllerOptions configured, const IntentById& policies);

constexpr std::uint64_t kMostWeight = 1'000;
// By index of `jobs`, 1 where nothing was said; empty where that is so of all of them.
std::vector<std::uint32_t> WeightsOf(std::span<const std::string> jobs, const IntentById& weights);

}  // namespace espalier::controller
