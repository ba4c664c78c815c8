#include "deploy/demo/telemetry_feed.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <string>

namespace espalier::demo {

Result<TelemetryFeed> TelemetryFeed::Start(const lab::Lab& lab, const LabDaemons& daemons,
                                           std::optional<std::chrono::milliseconds> load_interval) {
  auto folder = ScratchFolder::Make("feed");
  if (!folder) return Propagate(folder);
  TelemetryFeed feed(std::move(*folder));
  const std::string pipe = feed.folder_.path() + "/pipe";
  if (mkfifo(pipe.c_str(), 0600) != 0)
    return Fail(ErrorCode::kUnavailable, "cannot create " + pipe);
  const std::string program = daemons.programs() + "/espalier";
  auto report = ChildProcess::Start({.argv = {program, "report", "links", pipe, "--follow",
                                              "--controller", daemons.api_address()}});
  if (!report) return Propagate(report);
  feed.report_ = std::move(*report);
  std::string script = "exec \"$0\" lab watch --name \"$1\" >\"$2\"";
  if (load_interval) {
    script += fmt::format(" --loads {}", std::chrono::duration<double>(*load_interval).count());
  }
  auto watch =
      ChildProcess::Start({.argv = {"sh", "-c", script, program, lab.record().options.name, pipe}});
  if (!watch) return Propagate(watch);
  feed.watch_ = std::move(*watch);
  if (load_interval) {
    if (Result<void> begun = daemons.AwaitEvent("background_feed_started"); !begun) {
      return Propagate(begun);
    }
  }
  return feed;
}

}  // namespace espalier::demo
