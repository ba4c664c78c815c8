#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time/wall_time.h"
#include "common/files/json.h"
#include "deploy/cli/doctor/finding.h"

namespace espalier::doctor {

// What the controller says of itself and of the fabric.
struct ControllerAnswers {
  io::JsonValue status;                // GET /api/v1/status
  std::vector<io::JsonValue> events;   // of GET /api/v1/events, oldest first
  std::optional<io::JsonValue> paths;  // GET /api/v1/path-map; none: an older controller
};

// All checks of a controller, in their order: health, agents, source_port, polarisation, spraying,
// refusals, clock, capacity. Pure; O(events + pairs).
void CheckController(const ControllerAnswers& answers, Findings& findings);

// The keys in the controller's key folder: missing, or about to expire without a newer
// one. Adds nothing if there is no such folder.
void CheckKeyFolder(const std::string& folder, bool is_root, WallTime now, Findings& findings);

// How many ports, drawn at random, must be known that show `paths` paths before a further path of
// equal share counts as one without ports, with a confidence of 99.9 % (the stopping rule of MDA:
// Veitch et al., INFOCOM 2009).
double PortsThatShowAll(double paths);

}  // namespace espalier::doctor
