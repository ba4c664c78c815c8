#include "common/terminal/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace espalier::cli {
namespace {

std::string ThreeDigits(double value) {
  const double size = std::abs(value);
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  return size >= 9.995 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

std::string WithPrefix(double value, std::string_view unit) {
  static constexpr std::array<std::string_view, 7> kPrefixes = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t power = 0;
  while (std::abs(value) >= 999.5 && power + 1 < kPrefixes.size()) {
    value /= 1000;
    ++power;
  }
  const bool is_whole = power == 0 && value == std::floor(value);
  return fmt::format("{} {}{}", is_whole ? fmt::format("{:.0f}", value) : ThreeDigits(value),
                     kPrefixes[power], unit);
}

}  // namespace

std::string FormatBytes(double bytes) { return WithPrefix(bytes, "B"); }

std::string FormatRate(double bits_per_second) { return WithPrefix(bits_per_second, "bit/s"); }

std::string FormatSeconds(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  if (size < 0.9995e-3) return ThreeDigits(seconds * 1e6) + " us";
  if (size < 0.9995) return ThreeDigits(seconds * 1e3) + " ms";
  if (size < 120) return ThreeDigits(seconds) + " s";
  if (size < 2 * 3600) return fmt::format("{:.1f} min", seconds / 60);
  if (size < 48 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} d", seconds / 86400);
}

}  // namespace espalier::cli
