#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// Reads NetBox's cables: the CSV of its import form (side_a_device, side_a_type, side_a_name,
// side_b_...), or the JSON of /api/dcim/cables/ or /api/dcim/interfaces/ (pages or a list of
// objects, of releases before and after 3.3). Cables of patch panels, breakouts, and planned ones
// are left out with a remark.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<Cabling> ReadNetboxCables(std::string_view text, std::string_view file);

}  // namespace espalier::imports
