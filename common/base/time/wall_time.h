#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace espalier {

// A calendar time, for people and for data that outlives a process; not for measuring.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;
using WallClock = std::function<WallTime()>;

WallTime SystemWallTime();

// "2026-11-21T09:38:58.907Z"
std::string FormatWallTime(WallTime time);

// Parses "2026-11-21T18:00Z" (optionally with seconds and thousandths), or "90s", "30m", "2h",
// "3d", which count from `now` and may begin with a plus sign.
// Errors: kInvalidArgument for another form, or a date that does not exist.
Result<WallTime> ParseWallTime(std::string_view text, WallTime now);

}  // namespace espalier
