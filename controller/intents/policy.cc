#include "controller/intents/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <optional>
#include <utility>

#include "controller/intents/parse_number.h"

namespace espalier::controller {
namespace {

std::optional<PolicyValue> ParseAlgorithm(std::string_view text) {
  if (text == "optimal") return Algorithm::kOptimal;
  if (text == "greedy") return Algorithm::kGreedy;
  return std::nullopt;
}

std::optional<PolicyValue> ParseRateLimits(std::string_view text) {
  if (text == "true") return RateLimits::kOn;
  if (text == "false") return RateLimits::kOff;
  if (text == "automatic") return RateLimits::kAutomatic;
  return std::nullopt;
}

std::optional<PolicyValue> ParseShares(std::string_view text) {
  if (const auto shares = FindShares(text)) return *shares;
  return std::nullopt;
}

std::optional<PolicyValue> ParseSwitch(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

// Parses a number from 0 to the maximum of this type.
template <std::integral T>
std::optional<PolicyValue> ParseCount(std::string_view text) {
  const std::optional<T> number = ParseNumber<T>(text);
  if (!number || std::cmp_less(*number, 0)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

struct Policy {
  std::string_view name;
  std::string_view values;
  std::optional<PolicyValue> (*parse)(std::string_view text);
};
constexpr std::array kPolicies = {
    Policy{"algorithm", "optimal or greedy", ParseAlgorithm},
    Policy{"moves_per_start", "a number of flows, 0 or more", ParseCount<std::uint32_t>},
    Policy{"moved_bytes_per_start", "a number of bytes, 0 or more", ParseCount<std::int64_t>},
    Policy{"limit_rates", "true, false or automatic", ParseRateLimits},
    Policy{"plan_ahead", "true or false", ParseSwitch},
    Policy{"shares", "equal or exact", ParseShares},
};
constexpr auto kNames = [] {
  std::array<std::string_view, kPolicies.size()> names;
  std::ranges::transform(kPolicies, names.begin(), &Policy::name);
  return names;
}();

}  // namespace

std::span<const std::string_view> PolicyNames() { return kNames; }

Result<PolicyValue> ParsePolicy(std::string_view name, std::string_view text) {
  const auto* const policy = std::ranges::find(kPolicies, name, &Policy::name);
  if (policy == kPolicies.end()) {
    return Fail(ErrorCode::kNotFound, fmt::format("there is no policy \"{}\" (choose one of: {})",
                                                  name, fmt::join(kNames, ", ")));
  }
  if (const std::optional<PolicyValue> value = policy->parse(text)) return *value;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: invalid value \"{}\" (give {})", name, text, policy->values));
}

std::string FormatPolicy(const PolicyValue& value) {
  if (const auto* const algorithm = std::get_if<Algorithm>(&value)) {
    return *algorithm == Algorithm::kGreedy ? "greedy" : "optimal";
  }
  if (const auto* const limits = std::get_if<RateLimits>(&value)) {
    if (*limits == RateLimits::kAutomatic) return "automatic";
    return *limits == RateLimits::kOn ? "true" : "false";
  }
  if (const auto* const shares = std::get_if<Shares>(&value)) {
    return std::string(SharesName(*shares));
  }
  if (const auto* const is_on = std::get_if<bool>(&value)) return *is_on ? "true" : "false";
  return fmt::format("{}", std::get<std::int64_t>(value));
}

}  // namespace espalier::controller
