#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "controller/ledger/ledger_book.h"

namespace espalier::controller {

// The sums of bursts as text for the store: numbers and names of schemes, separated by spaces. Of a
// scheme whose draws are all equal, one stands for all. Numbers keep their exact values. Up to five
// kilobytes.
std::string FormatSums(const BurstSums& sums);

// Reads what FormatSums writes; a scheme that is not there applies to no burst. Errors:
// kInvalidArgument with the word that is wrong: a number that is negative, not finite or no number,
// a scheme that is unknown or applies to more bursts than there are, a wrong number of draws.
Result<BurstSums> ParseSums(std::string_view text);

}  // namespace espalier::controller
