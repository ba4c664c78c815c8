#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace espalier {

// A data rate in whole bits per second: exact for decimal Gbit/s of up to nine places.
struct BitsPerSecond {
  std::int64_t value = 0;
  constexpr auto operator<=>(const BitsPerSecond&) const = default;
};

// Parses a positive decimal number of Gbit/s ("100", "12.5", "0.05") exactly, without binary
// floating point. Exponents ("1e2") are refused.
// Errors: kInvalidArgument for anything else, more than nine decimal places, or over 9e9 Gbit/s.
Result<BitsPerSecond> ParseGbps(std::string_view text);

// The shortest decimal that ParseGbps reads back to the same rate.
std::string FormatGbps(BitsPerSecond rate);

}  // namespace espalier
