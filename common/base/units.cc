#include "common/base/units.h"

#include <fmt/format.h>

namespace espalier {
namespace {

constexpr std::int64_t kBitsPerGigabit = 1'000'000'000;
constexpr std::int64_t kMaxGbps = 9'000'000'000;
constexpr std::size_t kMaxDecimals = 9;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Result<BitsPerSecond> ParseGbps(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("bandwidth \"{}\" {} (write a positive decimal number of Gbit/s, such "
                            "as 100 or 12.5)",
                            text.substr(0, 40), why));
  };
  const std::size_t dot = text.find('.');
  const std::string_view whole = text.substr(0, dot);
  const std::string_view decimals =
      dot == std::string_view::npos ? std::string_view{} : text.substr(dot + 1);
  if (whole.empty() || (dot != std::string_view::npos && decimals.empty())) {
    return bad("is not a decimal number");
  }
  if (decimals.size() > kMaxDecimals) return bad("has more than nine decimal places");

  std::int64_t gigabits = 0;
  for (const char c : whole) {
    if (!IsDigit(c)) return bad("is not a positive decimal number");
    gigabits = gigabits * 10 + (c - '0');
    if (gigabits > kMaxGbps) return bad("is too large");
  }
  std::int64_t fraction = 0;
  for (std::size_t i = 0; i < kMaxDecimals; ++i) {
    const char c = i < decimals.size() ? decimals[i] : '0';
    if (!IsDigit(c)) return bad("is not a positive decimal number");
    fraction = fraction * 10 + (c - '0');
  }
  const std::int64_t bits = gigabits * kBitsPerGigabit + fraction;
  if (bits == 0) return bad("is zero");
  return BitsPerSecond{bits};
}

std::string FormatGbps(BitsPerSecond rate) {
  const std::int64_t whole = rate.value / kBitsPerGigabit;
  const std::int64_t fraction = rate.value % kBitsPerGigabit;
  if (fraction == 0) return fmt::format("{}", whole);
  std::string text = fmt::format("{}.{:09}", whole, fraction);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

}  // namespace espalier
