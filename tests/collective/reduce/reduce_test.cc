#include "collective/reduce/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace espalier::reduce {
namespace {

// --- An oracle of 16-bit floats without bit tricks: it looks values up. ---

double HalfValue(std::uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

// Finds the nearest value by search among all of that sign; ties go to even.
std::uint16_t NearestHalf(double value, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  int low = 0;
  int high = ((1 << exponent_bits) - 1) << fraction_bits;  // infinity
  const double past_largest = HalfValue(static_cast<std::uint16_t>(high - 1), exponent_bits) * 2 -
                              HalfValue(static_cast<std::uint16_t>(high - 2), exponent_bits);
  const auto at = [&](int bits) {
    return bits == (((1 << exponent_bits) - 1) << fraction_bits)
               ? past_largest
               : HalfValue(static_cast<std::uint16_t>(bits), exponent_bits);
  };
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (at(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - at(low);
  const double above = at(high) - magnitude;
  const bool up = above < below || (above == below && low % 2 == 1);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

int ExponentBits(DataType type) { return type == DataType::kF16 ? 5 : 8; }

// --- The reference: one element at a time. ---

template <typename T>
T Combine(ReduceOp op, T a, T b) {
  const bool a_is_nan = a != a;  // NOLINT(misc-redundant-expression)
  switch (op) {
    case ReduceOp::kProd:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
      }
      return static_cast<T>(a * b);
    case ReduceOp::kMin:
      return a_is_nan || a < b ? a : b;
    case ReduceOp::kMax:
      return a_is_nan || a > b ? a : b;
    default:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
      }
      return static_cast<T>(a + b);
  }
}

template <typename T>
void ReferenceElement(const Reduction& reduction, const std::vector<const std::byte*>& inputs,
                      std::size_t element, std::byte* output) {
  T result{};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    T value;
    std::memcpy(&value, inputs[i] + element * sizeof(T), sizeof(T));
    result = i == 0 ? value : Combine(reduction.op, result, value);
  }
  result = static_cast<T>(result / static_cast<T>(reduction.divisor));
  std::memcpy(output + element * sizeof(T), &result, sizeof(T));
}

void ReferenceHalf(const Reduction& reduction, const std::vector<const std::byte*>& inputs,
                   std::size_t element, std::byte* output) {
  const int exponent_bits = ExponentBits(reduction.type);
  float result = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, inputs[i] + 2 * element, 2);
    const auto value = static_cast<float>(HalfValue(bits, exponent_bits));
    result = i == 0 ? value : Combine(reduction.op, result, value);
  }
  result /= static_cast<float>(reduction.divisor);
  const std::uint16_t bits = NearestHalf(static_cast<double>(result), exponent_bits);
  std::memcpy(output + 2 * element, &bits, 2);
}

void ReferenceReduce(const Reduction& reduction, const std::vector<const std::byte*>& inputs,
                     std::size_t count, std::byte* output) {
  for (std::size_t e = 0; e < count; ++e) {
    switch (reduction.type) {
      case DataType::kF32:
        ReferenceElement<float>(reduction, inputs, e, output);
        break;
      case DataType::kF64:
        ReferenceElement<double>(reduction, inputs, e, output);
        break;
      case DataType::kI8:
        ReferenceElement<std::int8_t>(reduction, inputs, e, output);
        break;
      case DataType::kI32:
        ReferenceElement<std::int32_t>(reduction, inputs, e, output);
        break;
      case DataType::kI64:
        ReferenceElement<std::int64_t>(reduction, inputs, e, output);
        break;
      case DataType::kU8:
        ReferenceElement<std::uint8_t>(reduction, inputs, e, output);
        break;
      default:
        ReferenceHalf(reduction, inputs, e, output);
    }
  }
}

bool IsFloat(DataType type) { return type <= DataType::kBf16; }

// Draws finite values of moderate size (no NaN, whose payload the reference does not know).
void FillWithElements(DataType type, std::mt19937& random, std::byte* to, std::size_t count) {
  std::uniform_real_distribution<double> real(-8, 8);
  for (std::size_t e = 0; e < count; ++e) {
    const double value = real(random);
    std::byte* at = to + e * SizeOf(type);
    if (type == DataType::kF32) {
      const auto element = static_cast<float>(value);
      std::memcpy(at, &element, 4);
    } else if (type == DataType::kF64) {
      std::memcpy(at, &value, 8);
    } else if (IsFloat(type)) {
      const std::uint16_t element = NearestHalf(value, ExponentBits(type));
      std::memcpy(at, &element, 2);
    } else {
      const std::uint64_t bits = (std::uint64_t{random()} << 32) | random();
      std::memcpy(at, &bits, SizeOf(type));
    }
  }
}

std::vector<SimdLevel> Levels() {
  std::vector<SimdLevel> levels = {SimdLevel::kPortable};
  for (const SimdLevel level : {SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level <= BestSimdLevel()) levels.push_back(level);
  }
  return levels;
}

struct Case {
  Reduction reduction;
  std::size_t inputs = 2;
  std::size_t count = 1;
  std::size_t outputs = 1;
  std::size_t input_offset = 0;   // bytes after an aligned address
  std::size_t output_offset = 0;  // the second output is aligned differently from the first
  Stores stores = Stores::kCached;
};

constexpr std::size_t kGuard = 64;
constexpr std::byte kUntouched{0xa5};

// Buffers with guards on both sides, so that a write outside shows.
std::vector<std::byte> GuardedBuffer(std::size_t bytes) {
  return std::vector<std::byte>(bytes + 3 * kGuard, kUntouched);
}
std::byte* Place(std::vector<std::byte>& buffer, std::size_t offset) {
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  return buffer.data() + kGuard + (64 - address % 64) % 64 + offset;
}

void ExpectReducesAsReference(const Case& test, unsigned seed) {
  std::mt19937 random(seed);
  const std::size_t bytes = test.count * SizeOf(test.reduction.type);
  std::vector<std::vector<std::byte>> memory;
  std::vector<const std::byte*> inputs;
  for (std::size_t i = 0; i < test.inputs; ++i) {
    memory.push_back(GuardedBuffer(bytes + 64));
    std::byte* place = Place(memory.back(), (test.input_offset + 3 * i) % 64);
    FillWithElements(test.reduction.type, random, place, test.count);
    inputs.push_back(place);
  }
  std::vector<std::byte> expected(bytes);
  ReferenceReduce(test.reduction, inputs, test.count, expected.data());
  for (const SimdLevel level : Levels()) {
    std::vector<std::vector<std::byte>> results;
    std::vector<std::byte*> outputs;
    for (std::size_t o = 0; o < test.outputs; ++o) {
      results.push_back(GuardedBuffer(bytes + 64));
      outputs.push_back(Place(results.back(), (test.output_offset * (o + 1)) % 64));
    }
    ReduceAt(level, test.reduction, inputs, outputs, test.count, test.stores);
    for (std::size_t o = 0; o < test.outputs; ++o) {
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), outputs[o]))
          << "level " << static_cast<int>(level) << " output " << o;
      const std::byte* begin = results[o].data();
      const std::byte* end = begin + results[o].size();
      const auto is_untouched = [](std::byte b) { return b == kUntouched; };
      ASSERT_TRUE(std::all_of(begin, static_cast<const std::byte*>(outputs[o]), is_untouched));
      ASSERT_TRUE(std::all_of(outputs[o] + bytes, const_cast<std::byte*>(end), is_untouched));
    }
  }
}

TEST(Reduce, EqualsTheReferenceForAllTypesOpsSizesAndAlignments) {
  unsigned seed = 1;
  for (int type = 0; type < kDataTypes; ++type) {
    for (int op = 0; op < kReduceOps; ++op) {
      for (const std::size_t count : {0, 1, 2, 3, 7, 8, 15, 31, 33, 64, 127, 129, 255, 1021}) {
        for (const Stores stores : {Stores::kCached, Stores::kStreaming}) {
          Case test = {
              .reduction = {.type = static_cast<DataType>(type), .op = static_cast<ReduceOp>(op)},
              .inputs = 2 + seed % 4,
              .count = count,
              .outputs = 1 + seed % 3,
              .input_offset = seed % 64,
              .output_offset = (seed * 7) % 64,
              .stores = stores};
          if (test.reduction.op == ReduceOp::kAvg) {
            test.reduction.divisor = static_cast<std::int64_t>(test.inputs);
          }
          SCOPED_TRACE(std::string(DataTypeName(test.reduction.type)) + " " +
                       std::string(ReduceOpName(test.reduction.op)) + " count " +
                       std::to_string(count) + " seed " + std::to_string(seed));
          ASSERT_NO_FATAL_FAILURE(ExpectReducesAsReference(test, seed++));
        }
      }
    }
  }
}

TEST(Reduce, StreamsToOutputsOfOneAlignment) {
  for (const DataType type : {DataType::kF32, DataType::kBf16, DataType::kU8}) {
    for (const std::size_t offset : {0U, 8U, 16U, 32U, 60U}) {
      ExpectReducesAsReference({.reduction = {.type = type},
                                .inputs = 17,
                                .count = 777,
                                .outputs = 1,
                                .output_offset = offset,
                                .stores = Stores::kStreaming},
                               static_cast<unsigned>(offset));
    }
  }
}

TEST(Reduce, MayWriteOverAnInput) {
  std::vector<float> a(1003, 1.5F);
  std::vector<float> b(1003, 2.25F);
  const std::vector<const std::byte*> inputs = {reinterpret_cast<std::byte*>(a.data()),
                                                reinterpret_cast<std::byte*>(b.data())};
  const std::vector<std::byte*> outputs = {reinterpret_cast<std::byte*>(b.data()),
                                           reinterpret_cast<std::byte*>(a.data())};
  for (const SimdLevel level : Levels()) {
    std::fill(a.begin(), a.end(), 1.5F);
    std::fill(b.begin(), b.end(), 2.25F);
    ReduceAt(level, {}, inputs, outputs, a.size());
    EXPECT_EQ(a, std::vector<float>(1003, 3.75F));
    EXPECT_EQ(b, a);
  }
}

// Runs all 16-bit floats, including NaNs, through every level: the results equal the reference and
// each other.
TEST(Reduce, ReadsAndRoundsEvery16BitFloat) {
  for (const DataType type : {DataType::kF16, DataType::kBf16}) {
    std::vector<std::uint16_t> all(65536);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    std::vector<std::uint16_t> others(all.size());
    std::mt19937 random(3);
    for (std::uint16_t& other : others) {
      other = NearestHalf(std::ldexp(1.0, static_cast<int>(random() % 36) - 24) *
                              (1 + static_cast<double>(random() % 1024) / 1024),
                          ExponentBits(type));
    }
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax}) {
      const Reduction reduction = {.type = type, .op = op};
      const std::vector<const std::byte*> inputs = {
          reinterpret_cast<const std::byte*>(all.data()),
          reinterpret_cast<const std::byte*>(others.data())};
      std::vector<std::vector<std::uint16_t>> results;
      for (const SimdLevel level : Levels()) {
        std::vector<std::uint16_t>& result = results.emplace_back(all.size());
        std::byte* output = reinterpret_cast<std::byte*>(result.data());
        ReduceAt(level, reduction, inputs, {&output, 1}, all.size());
        EXPECT_EQ(result, results.front());
      }
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto a = static_cast<float>(HalfValue(all[i], ExponentBits(type)));
        const auto b = static_cast<float>(HalfValue(others[i], ExponentBits(type)));
        const float exact = Combine(op, a, b);
        const std::uint16_t got = results[0][i];
        if (std::isnan(exact)) {
          ASSERT_TRUE(std::isnan(HalfValue(got, ExponentBits(type)))) << i;
        } else {
          ASSERT_EQ(got, NearestHalf(static_cast<double>(exact), ExponentBits(type))) << i;
        }
      }
    }
  }
}

TEST(Reduce, MinimumAndMaximumOfNotANumberAreNotANumber) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a(9, kNan);
  const std::vector<float> b(9, 1);
  for (const auto& [first, second] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const std::vector<const std::byte*> inputs = {
        reinterpret_cast<const std::byte*>(first->data()),
        reinterpret_cast<const std::byte*>(second->data())};
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      std::vector<float> result(9);
      std::byte* output = reinterpret_cast<std::byte*>(result.data());
      Reduce({.op = op}, inputs, {&output, 1}, 9);
      for (const float value : result) EXPECT_TRUE(std::isnan(value));
    }
  }
}

// More exact than a sum that rounds after each input: 1 + 256 x 2^-8 in bf16.
TEST(Reduce, RoundsSumsOfManyHalvesOnce) {
  const std::uint16_t one = NearestHalf(1, 8);
  const std::uint16_t little = NearestHalf(0x1p-9, 8);
  std::vector<const std::byte*> inputs = {reinterpret_cast<const std::byte*>(&one)};
  for (int i = 0; i < 512; ++i) inputs.push_back(reinterpret_cast<const std::byte*>(&little));
  std::uint16_t result = 0;
  std::byte* output = reinterpret_cast<std::byte*>(&result);
  Reduce({.type = DataType::kBf16}, inputs, {&output, 1}, 1);
  EXPECT_EQ(HalfValue(result, 8), 2.0);
}

TEST(Reduce, CopiesBitsOfOneInput) {
  const std::vector<std::uint16_t> signalling(40, 0x7c01);
  std::vector<std::uint16_t> result(40);
  const std::byte* input = reinterpret_cast<const std::byte*>(signalling.data());
  std::byte* output = reinterpret_cast<std::byte*>(result.data());
  Reduce({.type = DataType::kF16}, {&input, 1}, {&output, 1}, 40);
  EXPECT_EQ(result, signalling);
  std::fill(result.begin(), result.end(), 0);
  Copy(input, output, 80, Stores::kStreaming);
  EXPECT_EQ(result, signalling);
}

// At every position of both in their pages, as different positions take different code paths.
TEST(Reduce, CopiesBetweenAllPlacesOfPages) {
  constexpr std::size_t kBytes = 5000;
  std::vector<std::byte> source(kBytes + 256);
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<std::byte>(i * 31 + i / 7);
  for (const Stores stores : {Stores::kCached, Stores::kStreaming}) {
    for (std::size_t from = 0; from < 256; from += 17) {
      for (std::size_t to = 0; to < 256; to += 13) {
        std::vector<std::byte> result(kBytes + 258, std::byte{0xee});
        Copy(source.data() + from, result.data() + 1 + to, kBytes, stores);
        ASSERT_EQ(std::memcmp(result.data() + 1 + to, source.data() + from, kBytes), 0);
        ASSERT_EQ(result[to], std::byte{0xee});
        ASSERT_EQ(result[1 + to + kBytes], std::byte{0xee});
      }
    }
  }
}

TEST(DataType, HasAName) {
  EXPECT_EQ(DataTypeName(DataType::kBf16), "bf16");
  EXPECT_EQ(ReduceOpName(ReduceOp::kAvg), "avg");
}

}  // namespace
}  // namespace espalier::reduce
