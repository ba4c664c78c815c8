#define ESPALIER_SIMD_LEVEL avx2
#include "collective/reduce/kernels.h"

namespace espalier::reduce {

const KernelTable& Avx2Kernels() { return avx2::kKernels; }

}  // namespace espalier::reduce
