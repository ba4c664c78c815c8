#pragma once

#include <string>

#include "common/files/json.h"

namespace espalier::cli {

// Says in sentences, for an answer that explains a flow, how near the flows of the fabric are to
// the least possible maximum load, and which theorem tells so. Empty if the controller is too old
// to tell.
std::string DescribeSpread(const io::JsonValue& answer);
// Names the paths of such an answer that no source port takes; empty if there are none.
std::string DescribeUnreachable(const io::JsonValue& answer);

}  // namespace espalier::cli
