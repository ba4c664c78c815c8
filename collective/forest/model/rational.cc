#include "collective/forest/model/rational.h"

#include <algorithm>
#include <limits>

#include "common/base/check.h"

namespace espalier::forest {

Int128 GreatestCommonDivisor(Int128 a, Int128 b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) {
    const Int128 rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

std::string ToString(Int128 value) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  std::string digits;
  for (; value != 0; value /= 10) {
    const int digit = static_cast<int>(value % 10);
    digits.push_back(static_cast<char>('0' + (negative ? -digit : digit)));
  }
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::optional<std::int64_t> CheckedMultiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

std::optional<std::int64_t> CheckedAdd(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

std::optional<std::int64_t> ToInt64(Int128 value) {
  if (value < std::numeric_limits<std::int64_t>::min() ||
      value > std::numeric_limits<std::int64_t>::max()) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(value);
}

Rational::Rational(Int128 numerator, Int128 denominator) {
  ESPALIER_CHECK(numerator >= 0 && denominator > 0);
  const Int128 divisor = GreatestCommonDivisor(numerator, denominator);
  numerator_ = numerator / divisor;
  denominator_ = denominator / divisor;
}

std::optional<Rational> Rational::Sum(const Rational& a, const Rational& b) {
  const Int128 common = GreatestCommonDivisor(a.denominator_, b.denominator_);
  Int128 left = 0;
  Int128 right = 0;
  Int128 denominator = 0;
  if (__builtin_mul_overflow(a.numerator_, b.denominator_ / common, &left) ||
      __builtin_mul_overflow(b.numerator_, a.denominator_ / common, &right) ||
      __builtin_mul_overflow(a.denominator_, b.denominator_ / common, &denominator) ||
      __builtin_add_overflow(left, right, &left)) {
    return std::nullopt;
  }
  return Rational(left, denominator);
}

std::optional<Rational> Rational::Product(const Rational& a, const Rational& b) {
  // Cancelling crosswise first leaves the product in lowest terms and as small as possible.
  const Int128 left = GreatestCommonDivisor(a.numerator_, b.denominator_);
  const Int128 right = GreatestCommonDivisor(b.numerator_, a.denominator_);
  Rational product;
  if (__builtin_mul_overflow(a.numerator_ / left, b.numerator_ / right, &product.numerator_) ||
      __builtin_mul_overflow(a.denominator_ / right, b.denominator_ / left,
                             &product.denominator_)) {
    return std::nullopt;
  }
  return product;
}

std::optional<Rational> Rational::Quotient(const Rational& dividend, const Rational& divisor) {
  ESPALIER_CHECK(divisor.numerator_ > 0);
  return Product(dividend, Rational(divisor.denominator_, divisor.numerator_));
}

double Rational::ToDouble() const {
  return static_cast<double>(numerator_) / static_cast<double>(denominator_);
}

std::string Rational::ToString() const {
  std::string text = forest::ToString(numerator_);
  if (denominator_ != 1) text += "/" + forest::ToString(denominator_);
  return text;
}

std::strong_ordering Rational::operator<=>(const Rational& other) const {
  // Compares continued fractions: whole parts first, then the reciprocals of the remainders.
  Int128 a = numerator_;
  Int128 b = denominator_;
  Int128 c = other.numerator_;
  Int128 d = other.denominator_;
  bool swapped = false;
  while (true) {
    if (const Int128 left = a / b, right = c / d; left != right) {
      return (left < right) != swapped ? std::strong_ordering::less : std::strong_ordering::greater;
    }
    a %= b;
    c %= d;
    if (a == 0 && c == 0) return std::strong_ordering::equal;
    if (a == 0) return swapped ? std::strong_ordering::greater : std::strong_ordering::less;
    if (c == 0) return swapped ? std::strong_ordering::less : std::strong_ordering::greater;
    std::swap(a, b);
    std::swap(c, d);
    swapped = !swapped;
  }
}

}  // namespace espalier::forest
