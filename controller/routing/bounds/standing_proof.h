#pragma once

#include "controller/routing/model/assignment.h"

namespace espalier::controller {

// The theorem by which the least maximum load is reached (Assigner::Optimal) whatever the flows
// between leaves are, if they have equal numbers of subflows: kTwoTiers or kNotNarrower while all
// links of a folded Clos are up and those of a tier have one rate, kBundles where BundledPaths
// applies. Else kNone: it depends on the
// flows, and the assignment says whether it is proven (Assignment::proof). O(blocks).
Proof StandingProof(const FabricView& view);

}  // namespace espalier::controller
