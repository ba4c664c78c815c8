#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

namespace espalier {

// A user of hosts as operators say it: a name ([a-z_][a-z0-9_-]{0,31}, with or without a $ at its
// end), or a number of decimal digits, 0 to 4294967295. Complexity: O(1). Thread safety: any
// thread.
bool IsLocalUser(std::string_view text);

// The number, where the text is one.
std::optional<uid_t> LocalUserNumber(std::string_view text);

}  // namespace espalier
