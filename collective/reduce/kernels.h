#pragma once

// The kernels of one SIMD level; see lanes.h.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "collective/reduce/kernel_table.h"
#include "collective/reduce/lanes.h"

namespace espalier::reduce::ESPALIER_SIMD_LEVEL {

template <ReduceOp kOp, typename V>
inline V Combine(V a, V b) {
  if constexpr (kOp == ReduceOp::kProd) {
    return a * b;
  } else if constexpr (kOp == ReduceOp::kMin) {
    // b if b is NaN
    return ((a != a) | (a < b)) ? a : b;  // NOLINT(misc-redundant-expression): NaN
  } else if constexpr (kOp == ReduceOp::kMax) {
    return ((a != a) | (a > b)) ? a : b;  // NOLINT(misc-redundant-expression): NaN
  } else {
    return a + b;
  }
}

// One call: `Blocks` handles whole vectors, `Partial` the rest.
template <typename Lanes, ReduceOp kOp>
class Pass {
 public:
  explicit Pass(const KernelCall& call) : call_(call) {}

  void Run() {
    constexpr std::size_t kBytes = Lanes::kBytes;
    const std::size_t bytes = call_.count * Lanes::kElementBytes;
    std::size_t at = 0;
    const bool aligns = bytes >= kAlignFrom && CanAlign();
    if (aligns) {
      at = DistanceToAligned();
      Partial(0, at);
    }
    if (call_.streaming && aligns) {
      at = Blocks<4, true>(at, bytes);
      at = Blocks<1, true>(at, bytes);
      EndStream();
    } else {
      at = Blocks<4, false>(at, bytes);
      at = Blocks<1, false>(at, bytes);
    }
    static_assert(kBytes % Lanes::kElementBytes == 0);
    Partial(at, bytes);
  }

 private:
  using Packed = typename Lanes::Packed;
  using Wide = typename Lanes::Wide;
  // From this size on, handling the start separately costs less than stores that cross cache lines.
  static constexpr std::size_t kAlignFrom = 1024;

  static std::uintptr_t Misalignment(const std::byte* address) {
    return reinterpret_cast<std::uintptr_t>(address) % Lanes::kBytes;
  }

  // Returns whether all outputs are aligned at the same elements.
  bool CanAlign() const {
    if (call_.output_count == 0) return false;
    const std::uintptr_t first = Misalignment(call_.outputs[0]);
    if (first % Lanes::kElementBytes != 0) return false;
    return std::all_of(call_.outputs, call_.outputs + call_.output_count,
                       [&](const std::byte* output) { return Misalignment(output) == first; });
  }

  std::size_t DistanceToAligned() const {
    return (Lanes::kBytes - Misalignment(call_.outputs[0])) % Lanes::kBytes;
  }

  template <bool kStream>
  static void StoreVector(std::byte* to, Packed value) {
    if constexpr (kStream) {
      StreamTo(to, value);
    } else {
      std::memcpy(to, &value, sizeof(value));
    }
  }

  static Wide Load(const std::byte* from) {
    Packed packed;
    std::memcpy(&packed, from, sizeof(packed));
    return Lanes::Widen(packed);
  }

  // Processes kUnroll vectors at a time, with all sums in registers. Returns where it stopped.
  template <std::size_t kUnroll, bool kStream>
  std::size_t Blocks(std::size_t at, std::size_t end) const {
    constexpr std::size_t kStep = kUnroll * Lanes::kBytes;
    for (; at + kStep <= end; at += kStep) {
      Wide sum[kUnroll];
      for (std::size_t u = 0; u < kUnroll; ++u) {
        sum[u] = Load(call_.inputs[0] + at + u * Lanes::kBytes);
      }
      for (std::size_t i = 1; i < call_.input_count; ++i) {
        const std::byte* input = call_.inputs[i] + at;
        for (std::size_t u = 0; u < kUnroll; ++u) {
          sum[u] = Combine<kOp>(sum[u], Load(input + u * Lanes::kBytes));
        }
      }
      if (call_.divisor != 1) {
        for (Wide& value : sum) value = Lanes::Divide(value, call_.divisor);
      }
      Packed packed[kUnroll];
      for (std::size_t u = 0; u < kUnroll; ++u) packed[u] = Lanes::Narrow(sum[u]);
      for (std::size_t o = 0; o < call_.output_count; ++o) {
        std::byte* output = call_.outputs[o] + at;
        for (std::size_t u = 0; u < kUnroll; ++u) {
          StoreVector<kStream>(output + u * Lanes::kBytes, packed[u]);
        }
      }
    }
    return at;
  }

  // Processes fewer bytes than a vector (or none), padded with zeros.
  void Partial(std::size_t at, std::size_t end) const {
    const std::size_t bytes = end - at;
    if (bytes == 0) return;
    const auto load = [&](const std::byte* from) {
      Packed packed = {};
      std::memcpy(&packed, from + at, bytes);
      return Lanes::Widen(packed);
    };
    Wide sum = load(call_.inputs[0]);
    for (std::size_t i = 1; i < call_.input_count; ++i) {
      sum = Combine<kOp>(sum, load(call_.inputs[i]));
    }
    if (call_.divisor != 1) sum = Lanes::Divide(sum, call_.divisor);
    const Packed packed = Lanes::Narrow(sum);
    for (std::size_t o = 0; o < call_.output_count; ++o) {
      std::memcpy(call_.outputs[o] + at, &packed, bytes);
    }
  }

  KernelCall call_;
};

template <typename Lanes, ReduceOp kOp>
void RunPass(const KernelCall& call) {
  Pass<Lanes, kOp>(call).Run();
}

template <typename Lanes>
constexpr std::array<Kernel, kReduceOps> KernelsOf() {
  return {RunPass<Lanes, ReduceOp::kSum>, RunPass<Lanes, ReduceOp::kProd>,
          RunPass<Lanes, ReduceOp::kMin>, RunPass<Lanes, ReduceOp::kMax>,
          RunPass<Lanes, ReduceOp::kSum>};
}

// In the order of DataType.
constexpr KernelTable kKernels = {KernelsOf<PlainLanes<float>>(),
                                  KernelsOf<PlainLanes<double>>(),
                                  KernelsOf<F16Lanes>(),
                                  KernelsOf<Bf16Lanes>(),
                                  KernelsOf<PlainLanes<std::int8_t>>(),
                                  KernelsOf<PlainLanes<std::int32_t>>(),
                                  KernelsOf<PlainLanes<std::int64_t>>(),
                                  KernelsOf<PlainLanes<std::uint8_t>>()};

}  // namespace espalier::reduce::ESPALIER_SIMD_LEVEL
