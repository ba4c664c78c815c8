#pragma once

#include <string>
#include <string_view>

#include "controller/intents/intent.h"

namespace espalier::controller {

// Maintenance windows (Intents::maintenance, by ids such as "m1"). From its beginning to its end
// (Intent::until) a window drains a link or a node, as a drain does. Windows may overlap, also with
// drains: what one of them or a drain covers is drained.

// Whether a window that has begun covers this link (kind "link") or node ("node"). O(windows).
bool IsInMaintenance(const IntentById& windows, std::string_view kind, std::string_view id);
// The ids of these windows, and of those that have not begun: "m1, m3"; "" for none.
std::string WindowsOf(const IntentById& windows, std::string_view kind, std::string_view id);
// An id that no window has: "m" and a number, one more than the highest.
std::string NextWindowId(const IntentById& windows);

}  // namespace espalier::controller
