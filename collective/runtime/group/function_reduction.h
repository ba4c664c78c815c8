#pragma once

#include <cstddef>
#include <functional>

#include "collective/runtime/calls/group.h"
#include "common/base/result.h"

namespace espalier::runtime {

// Reductions by a function of the program, over elements of any size.
//
// Problem: nothing is known of the function; it may be neither commutative nor associative. Idea:
// every rank reduces one slice of the elements. It gets that slice of all ranks, and combines them
// in the order of the ranks: ((x0 o x1) o x2) o ... So the result is the one of a loop over the
// ranks, bit-identical on every rank and in every run. Cost: 2 exchanges (1 of reduce_scatter), in
// which a rank sends 2 S (P - 1) / P of its S bytes (P ranks), and scratch memory of S bytes.

struct ReductionFunction {
  std::size_t element_bytes = 0;  // 1 to 1 MiB
  // Replaces left[i] by left[i] o right[i], for `count` elements. Both arrays are aligned for a
  // type of that size (up to 16 bytes) and do not overlap. Called by the calling thread only.
  std::function<void(std::byte* left, const std::byte* right, std::size_t count)> combine;
};

// `count`: elements of input and output, which are the same memory or do not overlap.
// Errors, of all functions below: kInvalidArgument for a null buffer or function, a size beyond the
// limits, or a root that is not a rank (the group is unaffected); those of exchanges. If the
// function throws, or there is no memory for the scratch, the group ends for all ranks with
// kInternal or kResourceExhausted. Thread safety: as Group.
Result<void> AllReduceBy(Group& group, const void* input, void* output, std::size_t count,
                         const ReductionFunction& function);
// Only the root has an output; that of other ranks is ignored.
Result<void> ReduceBy(Group& group, const void* input, void* output, std::size_t count,
                      const ReductionFunction& function, int root);
// `count`: elements of the output; the input has as many for each rank.
Result<void> ReduceScatterBy(Group& group, const void* input, void* output, std::size_t count,
                             const ReductionFunction& function);

}  // namespace espalier::runtime
