#pragma once

#include <cstddef>
#include <cstdint>

#include "collective/reduce/data_type.h"

namespace espalier::runtime {

// Elements of every type as small whole numbers, which all types but the 8-bit ones hold exactly
// up to 256, so that results can be compared without a tolerance.
void WriteElement(reduce::DataType type, std::byte* buffer, std::size_t index, int value);
double ReadElement(reduce::DataType type, const std::byte* buffer, std::size_t index);

// The input of rank `rank` of `ranks` at `index`, and the result of an operation over all ranks:
// small enough for i8 with 17 ranks, and whole numbers for averages.
int ValueOf(reduce::ReduceOp op, int rank, int ranks, std::size_t index);
int ReducedValue(reduce::ReduceOp op, int ranks, std::size_t index);

}  // namespace espalier::runtime
