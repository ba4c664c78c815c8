#include "common/base/time/wall_time.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

namespace espalier {
namespace {

constexpr int kMaxDays = 3'650;

// Parses `text` as a whole.
std::optional<int> ParseNumber(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number >= 0 && text[0] != '-' ? std::optional(number) : std::nullopt;
}

std::optional<std::chrono::seconds> ParsePeriod(std::string_view text) {
  const auto count = ParseNumber(text.substr(0, text.size() - 1));
  if (!count) return std::nullopt;
  std::chrono::seconds unit{};
  switch (text.back()) {
    case 's':
      unit = std::chrono::seconds(1);
      break;
    case 'm':
      unit = std::chrono::minutes(1);
      break;
    case 'h':
      unit = std::chrono::hours(1);
      break;
    case 'd':
      unit = std::chrono::days(1);
      break;
    default:
      return std::nullopt;
  }
  if (*count > std::chrono::days(kMaxDays) / unit) return std::nullopt;
  return unit * *count;
}

std::optional<WallTime> ParseDate(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ";
  constexpr std::string_view kShortForm = "dddd-dd-ddTdd:ddZ";
  constexpr std::string_view kLongForm = "dddd-dd-ddTdd:dd:dd.dddZ";  // the form of FormatWallTime
  const std::string_view form = text.size() == kShortForm.size()  ? kShortForm
                                : text.size() == kLongForm.size() ? kLongForm
                                                                  : kForm;
  if (text.size() != form.size()) return std::nullopt;
  std::array<int, 7> numbers{};  // year, month, day, hour, minute, second, millisecond
  std::size_t place = 0;
  for (std::size_t i = 0; i < form.size(); ++i) {
    if (form[i] != 'd') {
      if (text[i] != form[i]) return std::nullopt;
      ++place;
      continue;
    }
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    numbers[place] = numbers[place] * 10 + (text[i] - '0');
  }
  const std::chrono::year_month_day date{std::chrono::year(numbers[0]),
                                         std::chrono::month(static_cast<unsigned>(numbers[1])),
                                         std::chrono::day(static_cast<unsigned>(numbers[2]))};
  if (!date.ok() || numbers[3] > 23 || numbers[4] > 59 || numbers[5] > 59) return std::nullopt;
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(numbers[3]) +
         std::chrono::minutes(numbers[4]) + std::chrono::seconds(numbers[5]) +
         std::chrono::milliseconds(numbers[6]);
}

}  // namespace

WallTime SystemWallTime() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

std::string FormatWallTime(WallTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto fraction = std::chrono::floor<std::chrono::milliseconds>(time - seconds);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), fraction.count());
}

Result<WallTime> ParseWallTime(std::string_view text, WallTime now) {
  if (const auto date = ParseDate(text)) return *date;
  if (const auto period = ParsePeriod(text.substr(text.starts_with('+') ? 1 : 0))) {
    return now + *period;
  }
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("\"{}\" is not a valid time (write 2026-11-21T18:00Z, or 30m, 2h, 3d)", text));
}

}  // namespace espalier
