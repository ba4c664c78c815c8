#include "collective/reduce/data_type.h"

#include <array>

namespace espalier::reduce {
namespace {

constexpr std::array<std::string_view, kDataTypes> kTypeNames = {"f32", "f64", "f16", "bf16",
                                                                 "i8",  "i32", "i64", "u8"};
constexpr std::array<std::string_view, kReduceOps> kOpNames = {"sum", "prod", "min", "max", "avg"};

template <typename Enum, std::size_t kCount>
std::optional<Enum> Find(const std::array<std::string_view, kCount>& names, std::string_view name) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view DataTypeName(DataType type) { return kTypeNames[static_cast<std::size_t>(type)]; }
std::optional<DataType> FindDataType(std::string_view name) {
  return Find<DataType>(kTypeNames, name);
}
std::string_view ReduceOpName(ReduceOp op) { return kOpNames[static_cast<std::size_t>(op)]; }
std::optional<ReduceOp> FindReduceOp(std::string_view name) {
  return Find<ReduceOp>(kOpNames, name);
}

}  // namespace espalier::reduce
