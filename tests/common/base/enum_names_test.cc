#include "common/base/enum_names.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace espalier {
namespace {

enum class Color : std::uint8_t { kRed, kGreen, kBlue };

constexpr EnumNames<Color> kNames({
    {Color::kRed, "red"},
    {Color::kGreen, "green"},
    {Color::kBlue, "sky blue"},
});

TEST(EnumNames, EveryValueHasItsNameAndEveryNameItsValue) {
  for (const auto& [value, name] :
       {std::pair(Color::kRed, "red"), std::pair(Color::kGreen, "green"),
        std::pair(Color::kBlue, "sky blue")}) {
    EXPECT_EQ(kNames.NameOf(value), name);
    EXPECT_EQ(kNames.Find(name), value);
  }
}

TEST(EnumNames, AreThereWhileCompiling) {
  static_assert(kNames.NameOf(Color::kGreen) == "green");
  static_assert(kNames.Find("sky blue") == Color::kBlue);
}

TEST(EnumNames, ANameIsFoundAsAWholeAndAsItIsWritten) {
  for (const char* name : {"", "blue", "Red", "re", "red ", "?"}) {
    EXPECT_EQ(kNames.Find(name), std::nullopt) << name;
  }
}

TEST(EnumNames, AValueThatIsNoEnumeratorHasADefinedName) {
  constexpr EnumNames<Color> kOthers(
      {{Color::kRed, "r"}, {Color::kGreen, "g"}, {Color::kBlue, "b"}}, "");
  for (const int value : {3, 4, 255}) {
    EXPECT_EQ(kNames.NameOf(static_cast<Color>(value)), "?") << value;
    EXPECT_EQ(kOthers.NameOf(static_cast<Color>(value)), "") << value;
  }
}

// Negative values of an enum over int are not enumerators, either.
TEST(EnumNames, ANegativeValueHasADefinedName) {
  enum class Signed { kOnly };
  constexpr EnumNames<Signed> kOne({{Signed::kOnly, "only"}});
  EXPECT_EQ(kOne.NameOf(static_cast<Signed>(-1)), "?");
}

}  // namespace
}  // namespace espalier
