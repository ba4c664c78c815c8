#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

namespace espalier {

// True for a valid name of a host's user ([a-z_][a-z0-9_-]{0,31}, and optionally a final $) or a
// decimal user id from 0 to 4294967295. Complexity: O(1). Thread safety: any thread.
bool IsLocalUser(std::string_view text);

// The user id, if the text is a number.
std::optional<uid_t> LocalUserNumber(std::string_view text);

}  // namespace espalier
