#define ESPALIER_SIMD_LEVEL avx512
#include "collective/reduce/kernels.h"

namespace espalier::reduce {

const KernelTable& Avx512Kernels() { return avx512::kKernels; }

}  // namespace espalier::reduce
