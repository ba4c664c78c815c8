#include "tests/collective/runtime/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace espalier::runtime {
namespace {

using reduce::DataType;
using reduce::ReduceOp;

std::uint16_t HalfBits(int value) {
  if (value == 0) return 0;
  const auto magnitude = static_cast<unsigned>(std::abs(value));
  const int exponent = std::bit_width(magnitude) - 1;
  const unsigned fraction = (magnitude << (10 - exponent)) & 0x3ffU;
  return static_cast<std::uint16_t>((value < 0 ? 0x8000U : 0U) |
                                    static_cast<unsigned>(exponent + 15) << 10 | fraction);
}

double HalfValue(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const double fraction = (bits & 0x3ff) / 1024.0;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <typename T>
void Put(std::byte* buffer, std::size_t index, T value) {
  std::memcpy(buffer + index * sizeof(T), &value, sizeof(T));
}

template <typename T>
T Get(const std::byte* buffer, std::size_t index) {
  T value;
  std::memcpy(&value, buffer + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

void WriteElement(DataType type, std::byte* buffer, std::size_t index, int value) {
  switch (type) {
    case DataType::kF32:
      return Put(buffer, index, static_cast<float>(value));
    case DataType::kF64:
      return Put(buffer, index, static_cast<double>(value));
    case DataType::kF16:
      return Put(buffer, index, HalfBits(value));
    case DataType::kBf16: {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      return Put(buffer, index, static_cast<std::uint16_t>(bits >> 16));
    }
    case DataType::kI8:
      return Put(buffer, index, static_cast<std::int8_t>(value));
    case DataType::kI32:
      return Put(buffer, index, value);
    case DataType::kI64:
      return Put(buffer, index, std::int64_t{value});
    case DataType::kU8:
      return Put(buffer, index, static_cast<std::uint8_t>(value));
  }
}

double ReadElement(DataType type, const std::byte* buffer, std::size_t index) {
  switch (type) {
    case DataType::kF32:
      return static_cast<double>(Get<float>(buffer, index));
    case DataType::kF64:
      return Get<double>(buffer, index);
    case DataType::kF16:
      return HalfValue(Get<std::uint16_t>(buffer, index));
    case DataType::kBf16: {
      const auto bits = std::uint32_t{Get<std::uint16_t>(buffer, index)} << 16;
      return static_cast<double>(std::bit_cast<float>(bits));
    }
    case DataType::kI8:
      return Get<std::int8_t>(buffer, index);
    case DataType::kI32:
      return Get<std::int32_t>(buffer, index);
    case DataType::kI64:
      return static_cast<double>(Get<std::int64_t>(buffer, index));
    case DataType::kU8:
      return Get<std::uint8_t>(buffer, index);
  }
  return 0;
}

int ValueOf(ReduceOp op, int rank, int ranks, std::size_t index) {
  const int spread = static_cast<int>((index * 31 + static_cast<std::size_t>(rank) * 17) % 13);
  switch (op) {
    case ReduceOp::kSum:
      return spread % 7;
    case ReduceOp::kProd:
      return spread % 5 == 0 && rank < 6 ? 2 : 1;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return 3 + spread;
    case ReduceOp::kAvg: {
      // Ranks in pairs are as far above the average as below it.
      const int average = 2 + static_cast<int>(index % 3);
      if (rank == ranks - 1 && ranks % 2 == 1) return average;
      return rank % 2 == 0 ? average + 2 : average - 2;
    }
  }
  return 0;
}

int ReducedValue(ReduceOp op, int ranks, std::size_t index) {
  int result = ValueOf(op, 0, ranks, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const int value = ValueOf(op, rank, ranks, index);
    switch (op) {
      case ReduceOp::kProd:
        result *= value;
        break;
      case ReduceOp::kMin:
        result = std::min(result, value);
        break;
      case ReduceOp::kMax:
        result = std::max(result, value);
        break;
      default:
        result += value;
    }
  }
  return op == ReduceOp::kAvg ? result / ranks : result;
}

}  // namespace espalier::runtime
