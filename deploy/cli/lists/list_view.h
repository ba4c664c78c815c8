#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/wall_time.h"
#include "common/files/json.h"

namespace espalier::cli {

// Choosing and ordering the rows of a list, which are JSON objects.

// Whether one of these members matches the pattern: a text with * and ? as in a shell, without
// regard to case.
bool Matches(const io::JsonValue& row, const std::vector<std::string>& keys,
             const std::string& pattern);

// Compares as people do: runs of digits by their numbers, so that h9 comes before h10.
std::strong_ordering CompareNaturally(std::string_view a, std::string_view b);

// Sorts by a member (KEY.KEY: of a member of a member), stably: numbers by value, else naturally.
void SortRows(std::vector<io::JsonValue>& rows, const std::string& key, bool descending);

// The time that "30m", "2h" or "3d" ago was, or that a date gives. Errors: those of ParseWallTime.
Result<WallTime> ParseSince(std::string_view text, WallTime now);

// The text as the whole content of a terminal, whose lines end at the right edge instead of
// wrapping. If standard output is no terminal: the text and an empty line.
std::string OnScreen(const std::string& text);

}  // namespace espalier::cli
