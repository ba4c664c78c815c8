#pragma once

#include <span>
#include <string>
#include <string_view>

namespace espalier::cli {

// Returns the name that a mistyped word most likely means: the one that the fewest insertions,
// deletions and replacements of characters turn it into, and at most two. A word of three
// characters or more that begins a name counts as one change. "": no name is that close.
// O(characters of the word x characters of all names).
std::string ClosestName(std::string_view word, std::span<const std::string> names);

}  // namespace espalier::cli
