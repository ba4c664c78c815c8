#include "controller/settings/policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>

#include "common/base/check.h"

namespace espalier::controller {
namespace {

constexpr std::string_view kAlgorithm = "algorithm";
constexpr std::string_view kMovesPerStart = "moves_per_start";
constexpr std::string_view kMovedBytesPerStart = "moved_bytes_per_start";
constexpr std::string_view kLimitRates = "limit_rates";
constexpr std::string_view kPlanAhead = "plan_ahead";
constexpr std::array kNames = {kAlgorithm, kMovesPerStart, kMovedBytesPerStart, kLimitRates,
                               kPlanAhead};

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

template <typename T>
Result<void> Take(std::optional<T> value, T& option, std::string_view name, std::string_view text,
                  std::string_view values) {
  if (!value) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: \"{}\" (it is {})", name, text, values));
  }
  option = *value;
  return {};
}

Result<void> TakeSwitch(bool& option, std::string_view name, std::string_view text) {
  std::optional<bool> value;
  if (text == "true" || text == "false") value = text == "true";
  return Take(value, option, name, text, "true or false");
}

Result<void> TakeAlgorithm(Algorithm& option, std::string_view text) {
  std::optional<Algorithm> value;
  if (text == "optimal") value = Algorithm::kOptimal;
  if (text == "greedy") value = Algorithm::kGreedy;
  return Take(value, option, kAlgorithm, text, "optimal or greedy");
}

}  // namespace

std::span<const std::string_view> PolicyNames() { return kNames; }

Result<void> SetPolicy(ControllerOptions& options, std::string_view name, std::string_view value) {
  if (name == kAlgorithm) return TakeAlgorithm(options.algorithm, value);
  if (name == kLimitRates) return TakeSwitch(options.limit_rates, name, value);
  if (name == kPlanAhead) return TakeSwitch(options.plan_ahead, name, value);
  if (name == kMovesPerStart) {
    auto number = ParseNumber<std::uint32_t>(value);
    std::optional<std::size_t> moves;
    if (number) moves = *number;
    return Take(moves, options.moves_per_start, name, value, "a number of flows from 0");
  }
  if (name == kMovedBytesPerStart) {
    auto bytes = ParseNumber<std::int64_t>(value);
    if (bytes && *bytes < 0) bytes.reset();
    return Take(bytes, options.moved_bytes_per_start, name, value, "a number of bytes from 0");
  }
  return Fail(ErrorCode::kNotFound, fmt::format("there is no policy \"{}\" (there are: {})", name,
                                                fmt::join(kNames, ", ")));
}

std::string PolicyValue(const ControllerOptions& options, std::string_view name) {
  if (name == kAlgorithm) return options.algorithm == Algorithm::kGreedy ? "greedy" : "optimal";
  if (name == kMovesPerStart) return fmt::format("{}", options.moves_per_start);
  if (name == kMovedBytesPerStart) return fmt::format("{}", options.moved_bytes_per_start);
  if (name == kLimitRates) return options.limit_rates ? "true" : "false";
  ESPALIER_CHECK(name == kPlanAhead);
  return options.plan_ahead ? "true" : "false";
}

ControllerOptions WithPolicies(ControllerOptions configured, const IntentById& policies) {
  for (const auto& [name, intent] : policies) {
    static_cast<void>(SetPolicy(configured, name, intent.detail));
  }
  return configured;
}

std::vector<std::uint32_t> WeightsOf(std::span<const std::string> jobs, const IntentById& weights) {
  std::vector<std::uint32_t> by_job(jobs.size(), 1);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto found = weights.find(jobs[i]);
    if (found == weights.end()) continue;
    by_job[i] = ParseNumber<std::uint32_t>(found->second.detail).value_or(1);
  }
  if (std::all_of(by_job.begin(), by_job.end(), [](std::uint32_t weight) { return weight == 1; })) {
    return {};
  }
  return by_job;
}

}  // namespace espalier::controller
