#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collective/reduce/data_type.h"

namespace espalier::reduce {

// The instructions that the kernels use. All levels are bit-identical: elements are never
// reassociated, and nothing is contracted to fused multiply-adds. For data in memory, one core with
// AVX2 already saturates the bus; AVX-512 (F and BW) helps bf16 in the caches.
enum class SimdLevel : std::uint8_t { kPortable, kAvx2, kAvx512 };

// Returns the best level that this processor has.
SimdLevel BestSimdLevel();

// Where results go. Streaming stores bypass the caches and save the read of each written line. They
// pay if the results are not read again soon: outputs larger than the caches' share.
enum class Stores : std::uint8_t { kCached, kStreaming };

struct Reduction {
  DataType type = DataType::kF32;
  ReduceOp op = ReduceOp::kSum;  // kAvg adds like kSum
  // Divides the result once, after all inputs (for an average: the number of ranks).
  std::int64_t divisor = 1;
};

// Computes out[e] = in_0[e] op in_1[e] op ... for `count` elements, to every output. Evaluation is
// from left to right in the type itself, except that f16 and bf16 are accumulated in f32 and
// rounded once, to nearest even. Integers wrap around; their division truncates. min and max give
// NaN if any input is NaN. One input and divisor 1 is a copy of bits.
// Precondition: at least one input; any alignment. An output may be one of the inputs (the same
// address); otherwise they do not overlap.
// Cost: one pass over memory for any number of inputs; measured by reduce_bench.
// Thread safety: none needed.
void Reduce(const Reduction& reduction, std::span<const std::byte* const> inputs,
            std::span<std::byte* const> outputs, std::size_t count,
            Stores stores = Stores::kCached);

// As Reduce, on instructions of a given level, which the processor must have.
void ReduceAt(SimdLevel level, const Reduction& reduction, std::span<const std::byte* const> inputs,
              std::span<std::byte* const> outputs, std::size_t count,
              Stores stores = Stores::kCached);

// Copies bytes that do not overlap.
void Copy(const std::byte* source, std::byte* destination, std::size_t bytes,
          Stores stores = Stores::kCached);

}  // namespace espalier::reduce
