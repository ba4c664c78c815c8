#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace espalier::reduce {

enum class DataType : std::uint8_t { kF32, kF64, kF16, kBf16, kI8, kI32, kI64, kU8 };
constexpr int kDataTypes = 8;

enum class ReduceOp : std::uint8_t { kSum, kProd, kMin, kMax, kAvg };
constexpr int kReduceOps = 5;

constexpr std::size_t SizeOf(DataType type) {
  switch (type) {
    case DataType::kF64:
    case DataType::kI64:
      return 8;
    case DataType::kF32:
    case DataType::kI32:
      return 4;
    case DataType::kF16:
    case DataType::kBf16:
      return 2;
    case DataType::kI8:
    case DataType::kU8:
      return 1;
  }
  return 0;
}

constexpr bool IsInteger(DataType type) {
  return type == DataType::kI8 || type == DataType::kI32 || type == DataType::kI64 ||
         type == DataType::kU8;
}

// "f32", "bf16", ...; "sum", "prod", "min", "max", "avg".
std::string_view DataTypeName(DataType type);
std::string_view ReduceOpName(ReduceOp op);

}  // namespace espalier::reduce
