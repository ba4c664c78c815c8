#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace espalier {

// An integer id of one kind of thing; ids of different kinds are different types.
//   using NodeId = StrongId<struct NodeTag>;
// Dense ids (indices into vectors) start at 0; Index() gives the position.
template <typename Tag, typename Rep = std::int32_t>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr std::size_t Index() const { return static_cast<std::size_t>(value_); }
  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  Rep value_ = 0;
};

}  // namespace espalier

template <typename Tag, typename Rep>
struct std::hash<espalier::StrongId<Tag, Rep>> {
  std::size_t operator()(espalier::StrongId<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};
