#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace espalier {

// A point of the calendar, for people and for what outlives a process; never for measuring.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;
using WallClock = std::function<WallTime()>;

WallTime SystemWallTime();

// "2026-11-21T09:38:58.907Z"
std::string FormatWallTime(WallTime time);

// "2026-11-21T18:00Z" (seconds, and thousandths, may follow the minutes), or "+90s", "+30m", "+2h",
// "+3d" from `now`.
// Errors: kInvalidArgument for another form, or a date that is none.
Result<WallTime> ParseWallTime(std::string_view text, WallTime now);

}  // namespace espalier
