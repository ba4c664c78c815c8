#pragma once

#include <optional>
#include <string_view>

#include "collective/forest/model/rational.h"

namespace espalier::forest {

// "7/2" or "3", as Rational::ToString writes them; any digits before lowest terms. None for
// anything else, a denominator of zero, or terms past 127 bits.
std::optional<Rational> ParseRational(std::string_view text);

}  // namespace espalier::forest
