#pragma once

#include <optional>
#include <string_view>

#include "collective/forest/model/rational.h"

namespace espalier::forest {

// Parses "7/2" or "3", as Rational::ToString writes them; terms need not be lowest. Returns none
// for any other text, a denominator of zero, or terms of more than 127 bits.
std::optional<Rational> ParseRational(std::string_view text);

}  // namespace espalier::forest
