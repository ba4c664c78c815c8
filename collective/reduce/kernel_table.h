#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "collective/reduce/data_type.h"

namespace espalier::reduce {

struct KernelCall {
  const std::byte* const* inputs = nullptr;
  std::size_t input_count = 0;
  std::byte* const* outputs = nullptr;
  std::size_t output_count = 0;
  std::size_t count = 0;  // elements
  std::int64_t divisor = 1;
  bool streaming = false;
};

using Kernel = void (*)(const KernelCall&);

// Kernels by data type and operation.
using KernelTable = std::array<std::array<Kernel, kReduceOps>, kDataTypes>;

const KernelTable& PortableKernels();
// Only on x86-64.
const KernelTable& Avx2Kernels();
const KernelTable& Avx512Kernels();

}  // namespace espalier::reduce
