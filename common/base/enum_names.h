#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace espalier {

// A two-way table between the values of an enum and their names:
//   constexpr EnumNames<Color> kNames({{Color::kRed, "red"}, {Color::kBlue, "blue"}});
//   kNames.NameOf(Color::kBlue) == "blue"; kNames.Find("red") == Color::kRed
// The enumerators count from 0 and are listed in this order; a table that lacks one does not
// compile. NameOf is O(1), Find is O(names).
template <typename Enum>
class EnumNames {
 public:
  struct Entry {
    Enum value;
    std::string_view name;
  };

 private:
  // Compilers write "Color::kRed" for an enumerator, and "(Color)2" for any other value.
  template <Enum kValue>
  static consteval bool IsEnumerator() {
    constexpr std::string_view kText = __PRETTY_FUNCTION__;
    constexpr std::string_view kBefore = "kValue = ";
    return kText[kText.find(kBefore) + kBefore.size()] != '(';
  }
  template <std::size_t kFirst = 0>
  static consteval std::size_t Count() {
    if constexpr (IsEnumerator<static_cast<Enum>(kFirst)>()) return Count<kFirst + 1>();
    return kFirst;
  }

 public:
  static constexpr std::size_t kCount = Count();

  // `unknown` is the name of values that are not enumerators.
  consteval explicit EnumNames(const Entry (&entries)[kCount], std::string_view unknown = "?")
      : unknown_(unknown) {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (static_cast<std::size_t>(entries[i].value) != i) throw "missing, or not in order";
      names_[i] = entries[i].name;
    }
  }

  constexpr std::string_view NameOf(Enum value) const {
    const auto index = static_cast<std::size_t>(value);
    return index < kCount ? names_[index] : unknown_;
  }
  constexpr std::optional<Enum> Find(std::string_view name) const {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (names_[i] == name) return static_cast<Enum>(i);
    }
    return std::nullopt;
  }

 private:
  std::array<std::string_view, kCount> names_;
  std::string_view unknown_;
};

}  // namespace espalier
