#pragma once

#include <string>

#include "common/base/result.h"
#include "controller/controller.h"

namespace espalier::controller {

// What the ledger says of each job, as JSON: what its observed bursts cost, and would have cost by
// other schemes. `span`: how far it looks back, such as "30m" or "2h", in whole steps of the ledger
// (LedgerBook::kStep); empty: as far as the ledger reaches. O(entries of the ledger).
// Errors: kInvalidArgument for another form of the span.
Result<std::string> AdviseView(const Controller& controller, const std::string& span);

}  // namespace espalier::controller
