#include "collective/forest/model/exact_text.h"

namespace espalier::forest {
namespace {

std::optional<Int128> ParseTerm(std::string_view digits) {
  if (digits.empty()) return std::nullopt;
  Int128 value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    if (__builtin_mul_overflow(value, Int128{10}, &value) ||
        __builtin_add_overflow(value, Int128{c - '0'}, &value)) {
      return std::nullopt;
    }
  }
  return value;
}

}  // namespace

std::optional<Rational> ParseRational(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto numerator = ParseTerm(text.substr(0, slash));
  const auto denominator = slash == std::string_view::npos ? std::optional<Int128>(1)
                                                           : ParseTerm(text.substr(slash + 1));
  if (!numerator || !denominator || *denominator == 0) return std::nullopt;
  return Rational(*numerator, *denominator);
}

}  // namespace espalier::forest
