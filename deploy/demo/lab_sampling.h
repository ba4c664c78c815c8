#pragma once

#include <string>

#include "common/base/result.h"
#include "deploy/lab/lab.h"

namespace espalier::demo {

// Has every switch of a lab sample one in `rate` of the packets that it forwards, with a real agent
// (pmacct's uacctd, which sends sFlow over a management link to the node of the controller), and
// starts espalier-telemetry there, which reports to the controller at `api_address`. All of them
// run until the lab is stopped. Hosts send and take no packets that are larger than the links',
// which would be sampled as one.
//
// `programs` is the folder with espalier-telemetry. `folder` must exist; it gets the configuration
// and logs. Errors: kNotFound if uacctd is missing; those of starting programs.
Result<void> SampleSwitches(const lab::Lab& lab, int rate, const std::string& programs,
                            const std::string& folder, const std::string& api_address);

}  // namespace espalier::demo
