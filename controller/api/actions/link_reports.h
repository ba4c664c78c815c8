#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "controller/controller.h"

namespace espalier::controller {

// Applies the lines of a telemetry feed, each {"link": ID, "up": true or false, "source": TEXT},
// and calls `done` with a JSON object that has their number. All lines are checked before the first
// one is applied. Both are done in slices of kSliceOfReports, between which the loop serves others,
// so `done` may be called later.
// Errors: kInvalidArgument with the line and what is wrong, kNotFound for an unknown link.
inline constexpr Duration kSliceOfReports = std::chrono::milliseconds(2);
void HandleLinkReports(Controller& controller, std::string_view lines,
                       std::function<void(Result<std::string>)> done);

}  // namespace espalier::controller
