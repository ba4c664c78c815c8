#pragma once

#include <string>

#include "deploy/lab/lab.h"

namespace espalier::lab {

// Starts a controller and an agent in each host of a lab; they run until it is stopped. Returns the
// address of the controller's API.
//
// sampling > 0: also has every switch sample one in so many of the packets that it forwards, with a
// real agent (pmacct's uacctd, which sends sFlow over a management link to the node of the
// controller), and starts espalier-telemetry there, which reports to the controller. Hosts then
// send and take no packets that are larger than the links', which would be sampled as one.
//
// The configuration and logs are in the folder `espalier` beside the topology file. If it fails,
// the lab is stopped. Errors: kNotFound if uacctd is missing; those of starting programs.
Result<std::string> SteerLab(const Lab& lab, int sampling);

}  // namespace espalier::lab
