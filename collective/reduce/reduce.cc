#include "collective/reduce/reduce.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstring>

#include "collective/reduce/kernel_table.h"
#include "common/base/check.h"

namespace espalier::reduce {
namespace {

const KernelTable& Kernels(SimdLevel level) {
#if defined(__x86_64__)
  if (level == SimdLevel::kAvx512) return Avx512Kernels();
  if (level == SimdLevel::kAvx2) return Avx2Kernels();
#endif
  ESPALIER_CHECK(level == SimdLevel::kPortable);
  return PortableKernels();
}

Kernel FindKernel(SimdLevel level, DataType type, ReduceOp op) {
  return Kernels(level)[static_cast<std::size_t>(type)][static_cast<std::size_t>(op)];
}

#if defined(__x86_64__)
// Not every compiler knows this feature by name.
bool HasF16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

SimdLevel DetectSimdLevel() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !HasF16c()) return SimdLevel::kPortable;
  const bool is_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  return is_wide ? SimdLevel::kAvx512 : SimdLevel::kAvx2;
#else
  return SimdLevel::kPortable;
#endif
}

}  // namespace

SimdLevel BestSimdLevel() {
  static const SimdLevel level = DetectSimdLevel();
  return level;
}

void ReduceAt(SimdLevel level, const Reduction& reduction, std::span<const std::byte* const> inputs,
              std::span<std::byte* const> outputs, std::size_t count, Stores stores) {
  ESPALIER_CHECK(!inputs.empty() && reduction.divisor > 0);
  KernelCall call = {.inputs = inputs.data(),
                     .input_count = inputs.size(),
                     .outputs = outputs.data(),
                     .output_count = outputs.size(),
                     .count = count,
                     .divisor = reduction.divisor,
                     .streaming = stores == Stores::kStreaming};
  if (inputs.size() == 1 && reduction.divisor == 1) {
    // Bytes pass through the u8 kernel unchanged.
    call.count = count * SizeOf(reduction.type);
    FindKernel(level, DataType::kU8, ReduceOp::kSum)(call);
    return;
  }
  FindKernel(level, reduction.type, reduction.op)(call);
}

void Reduce(const Reduction& reduction, std::span<const std::byte* const> inputs,
            std::span<std::byte* const> outputs, std::size_t count, Stores stores) {
  ReduceAt(BestSimdLevel(), reduction, inputs, outputs, count, stores);
}

// The C library copies more than some KiB with `rep movsb`. That takes up to a third longer if data
// comes from memory or another core. Some processors (Zen 3) copy at a thirtieth of their speed if
// the destination lies up to 63 bytes behind the source modulo a page, as a large block of malloc's
// does relative to the beginning of a page.
void Copy(const std::byte* source, std::byte* destination, std::size_t bytes, Stores stores) {
  if (bytes == 0) return;
  constexpr std::uintptr_t kPage = 4096;
  constexpr std::uintptr_t kLine = 64;
  constexpr std::size_t kLibraryCopies = 16 << 10;
  const std::uintptr_t behind =
      (reinterpret_cast<std::uintptr_t>(destination) - reinterpret_cast<std::uintptr_t>(source)) %
      kPage;
  const bool is_slow = behind > 0 && behind < kLine;
  if (stores == Stores::kCached && !is_slow && bytes <= kLibraryCopies) {
    std::memcpy(destination, source, bytes);
    return;
  }
  Reduce({.type = DataType::kU8}, {&source, 1}, {&destination, 1}, bytes, stores);
}

}  // namespace espalier::reduce
