#define ESPALIER_SIMD_LEVEL portable
#include "collective/reduce/kernels.h"

namespace espalier::reduce {

const KernelTable& PortableKernels() { return portable::kKernels; }

}  // namespace espalier::reduce
