#pragma once

#include <string>

#include "common/fabric/folded_clos.h"
#include "common/fabric/topology.h"

namespace espalier::fabric {

// What RecognizeFoldedClos found, as one sentence for operators.
std::string DescribeTiers(const Topology& topology,
                          const tl::expected<FoldedClos, std::string>& recognized);

}  // namespace espalier::fabric
