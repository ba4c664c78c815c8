#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "common/base/result.h"
#include "common/os/command.h"
#include "common/os/scratch_folder.h"
#include "deploy/demo/lab_daemons.h"
#include "deploy/lab/lab.h"

namespace espalier::demo {

// The telemetry of a lab's switches, which the controller gets as long as this object exists:
// `espalier lab watch | espalier report links`.
class TelemetryFeed {
 public:
  // Reports which links go down and come up; with an interval, also how loaded links are, and
  // returns when the controller has a first report of that.
  // Errors: those of starting programs, kUnavailable without a report in time.
  static Result<TelemetryFeed> Start(
      const lab::Lab& lab, const LabDaemons& daemons,
      std::optional<std::chrono::milliseconds> load_interval = std::nullopt);
  TelemetryFeed(TelemetryFeed&&) = default;
  TelemetryFeed& operator=(TelemetryFeed&&) = delete;

 private:
  explicit TelemetryFeed(ScratchFolder folder) : folder_(std::move(folder)) {}

  ScratchFolder folder_;
  std::optional<ChildProcess> report_;
  std::optional<ChildProcess> watch_;
};

}  // namespace espalier::demo
