#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace espalier::forest {

// GCC and clang provide it on every 64-bit machine; ISO C++ has no name for it.
__extension__ using Int128 = __int128;

Int128 GreatestCommonDivisor(Int128 a, Int128 b);  // of the absolute values; of 0 and b: b
std::string ToString(Int128 value);

// Return none if the result does not fit, so that the caller can report it and nothing wraps
// around.
std::optional<std::int64_t> CheckedMultiply(std::int64_t a, std::int64_t b);
std::optional<std::int64_t> CheckedAdd(std::int64_t a, std::int64_t b);
std::optional<std::int64_t> ToInt64(Int128 value);

// An exact rational number, never negative, always in lowest terms ("7/2", "3").
// Comparison is exact and cannot overflow (continued fractions).
class Rational {
 public:
  constexpr Rational() = default;
  // numerator >= 0, denominator > 0.
  Rational(Int128 numerator, Int128 denominator);

  Int128 numerator() const { return numerator_; }
  Int128 denominator() const { return denominator_; }
  bool IsZero() const { return numerator_ == 0; }

  // None if a term of the result, in lowest terms, exceeds 127 bits (Sum: also before it is
  // reduced).
  static std::optional<Rational> Sum(const Rational& a, const Rational& b);
  static std::optional<Rational> Product(const Rational& a, const Rational& b);
  // Precondition: divisor > 0.
  static std::optional<Rational> Quotient(const Rational& dividend, const Rational& divisor);

  // Returns the nearest double. For people and plots only.
  double ToDouble() const;
  std::string ToString() const;

  bool operator==(const Rational&) const = default;
  std::strong_ordering operator<=>(const Rational& other) const;

 private:
  Int128 numerator_ = 0;
  Int128 denominator_ = 1;
};

}  // namespace espalier::forest
