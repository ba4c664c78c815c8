#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "common/base/result.h"

namespace espalier::controller {

// How all flows are assigned at once, on the operator's word.
enum class Algorithm {
  kOptimal,  // the least maximum load, and the fairest of those
  kGreedy,   // Algorithm 1 of Routing for Large ML Models; starts then move no live flow
};

// What operators may say of the way that flows are placed while the controller runs: an algorithm,
// on or off, or a number, by what policy it is.
using PolicyValue = std::variant<Algorithm, bool, std::int64_t>;

// The options that are policies, by their names in the configuration file.
constexpr std::string_view kAlgorithm = "algorithm";
constexpr std::string_view kMovesPerStart = "moves_per_start";
constexpr std::string_view kMovedBytesPerStart = "moved_bytes_per_start";
constexpr std::string_view kLimitRates = "limit_rates";
constexpr std::string_view kPlanAhead = "plan_ahead";
std::span<const std::string_view> PolicyNames();

// Errors: kNotFound (no policy has that name), kInvalidArgument (it takes no such value); both with
// what there is.
Result<PolicyValue> ParsePolicy(std::string_view name, std::string_view text);
std::string FormatPolicy(const PolicyValue& value);  // as ParsePolicy takes it

}  // namespace espalier::controller
