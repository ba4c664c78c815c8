#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "controller/controller.h"

namespace espalier::controller {

// What the controller expects of each job, and the state of its failure plans, as JSON.
std::string PredictionsView(const Controller& controller);

// A telemetry feed's lines, each {"link": ID, "up": true or false, "source": TEXT}, and the JSON
// answer with how many were taken. All lines are checked before the first is taken.
// Errors: kInvalidArgument with the line and what is wrong, kNotFound for an unknown link.
Result<std::string> HandleLinkReports(Controller& controller, std::string_view lines);

// What a job will start together, as {"job": NAME, "period_us": 1500000, "bytes": OF EACH,
// "transport": "verbs" or "tcp", "flows": [[NIC, NIC], ...]} with the ids of the topology, and the
// JSON answer with how many flows were taken (Controller::DeclareStarts). All but the job and the
// flows may be left out.
// Errors: kInvalidArgument, kNotFound for an unknown NIC, DeclareStarts'.
Result<std::string> DeclareSchedule(Controller& controller, std::string_view text);

}  // namespace espalier::controller
