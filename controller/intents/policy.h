#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "common/base/result.h"
#include "controller/routing/model/shares.h"

namespace espalier::controller {

// The algorithm that assigns all flows when an operator asks for a recomputation.
enum class Algorithm {
  kOptimal,  // the least maximum load; among those, the fairest assignment
  kGreedy,   // Algorithm 1 of Routing for Large ML Models; arrivals then move no other flow
};

// Which flows get a rate limit.
enum class RateLimits {
  kOff,
  kOn,
  kAutomatic,  // those for which something enforces it
};

// The value of a policy, an option that operators can set while the controller runs: an algorithm,
// how flows are divided, on or off, or a number.
using PolicyValue = std::variant<Algorithm, RateLimits, Shares, bool, std::int64_t>;

// The options that are policies, by their names in the configuration file. A further one needs a
// row in policy.cc (its values), in controller/settings/policies.cc (its option) and in
// controller/daemon/config.proto.
std::span<const std::string_view> PolicyNames();

// Errors: kNotFound (unknown policy), kInvalidArgument (invalid value); both list what is valid.
Result<PolicyValue> ParsePolicy(std::string_view name, std::string_view text);
std::string FormatPolicy(const PolicyValue& value);  // in the form that ParsePolicy reads

}  // namespace espalier::controller
