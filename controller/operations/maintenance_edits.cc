#include "controller/operations/maintenance_edits.h"

#include <fmt/format.h>

#include <chrono>

#include "controller/intents/maintenance.h"

namespace espalier::controller {
namespace {

Result<void> CheckTarget(const fabric::Topology& topology, const std::string& kind,
                         const std::string& id) {
  if (kind == "link") {
    if (topology.FindLink(id)) return {};
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no link \"{}\" (`espalier links` lists them)", id));
  }
  if (kind == "node") {
    if (topology.FindNode(id)) return {};
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no node \"{}\" (`espalier nodes` lists them)", id));
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("kind: unknown value \"{}\" (give link or node)", kind));
}

Result<void> CheckTimes(WallTime from, const OperatorRequest& request, WallTime now) {
  if (!request.until) {
    return Fail(ErrorCode::kInvalidArgument,
                "the maintenance window has no end (give --until, or drain without an end)");
  }
  if (*request.until <= now) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the end time {} is in the past (the controller's clock says {})",
                            FormatWallTime(*request.until), FormatWallTime(now)));
  }
  if (*request.until <= from) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the window would end at {}, before it begins at {} (exchange them?)",
                            FormatWallTime(*request.until), FormatWallTime(from)));
  }
  return {};
}

}  // namespace

Result<Intents> AddWindow(const Intents& intents, const fabric::Topology& topology,
                          const std::string& kind, const std::string& id, WallTime from,
                          const OperatorRequest& request, WallTime now) {
  if (Result<void> known = CheckTarget(topology, kind, id); !known) return Propagate(known);
  if (Result<void> right = CheckTimes(from, request, now); !right) return Propagate(right);
  if (intents.maintenance.size() >= kMaxWindows) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("there are {} maintenance windows already (cancel some)", kMaxWindows));
  }
  MaintenanceWindow window{.kind = kind,
                           .id = id,
                           .from = std::chrono::floor<std::chrono::milliseconds>(from),
                           .has_begun = request.dry_run || from <= now,
                           .is_forced = request.force};
  for (const auto& [name, present] : intents.maintenance) {
    const auto* const other = std::get_if<MaintenanceWindow>(&present.value);
    if (other == nullptr || present.until != request.until) continue;
    if (other->kind == kind && other->id == id && other->from == window.from) {
      return Fail(ErrorCode::kAlreadyExists, fmt::format("window {} is the same", name));
    }
  }
  Intents changed = intents;
  changed.maintenance[NextWindowId(intents.maintenance)] = {request.reason, request.actor, now,
                                                            request.until, std::move(window)};
  return changed;
}

Result<Intents> BeginWindow(const Intents& intents, const std::string& window) {
  Intents changed = intents;
  const auto found = changed.maintenance.find(window);
  if (found == changed.maintenance.end()) {
    return Fail(ErrorCode::kNotFound, fmt::format("window {} was cancelled", window));
  }
  auto* const value = std::get_if<MaintenanceWindow>(&found->second.value);
  if (value == nullptr || value->has_begun) {
    return Fail(ErrorCode::kAlreadyExists, fmt::format("window {} has begun already", window));
  }
  value->has_begun = true;
  return changed;
}

Result<Intents> CancelWindow(const Intents& intents, const std::string& window) {
  Intents changed = intents;
  if (changed.maintenance.erase(window) > 0) return changed;
  return Fail(
      ErrorCode::kNotFound,
      fmt::format("there is no maintenance window \"{}\" (`espalier maintenance` lists them)",
                  window));
}

}  // namespace espalier::controller
