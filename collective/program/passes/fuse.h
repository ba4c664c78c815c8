#pragma once

#include "collective/program/passes/instruction_dag.h"

namespace espalier::program {

// Marks the pairs of a receive and a send of its result that can be fused (GC3, section 4.2); among
// several sends, the one on the longest path through the DAG. Both must have the same directives.
// Precondition: dependencies are known.
void ChooseFusions(InstructionDag& dag);

// Performs the marked fusions: r + s = rcs, rrc + s = rrcs, or rrs if no other instruction reads
// the result under any buffer placement. Removes scratch memory that is not written after that and
// finds the dependencies again.
void ApplyFusions(InstructionDag& dag);

// The messages on the longest chain before and after each instruction.
struct Distances {
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
};
Distances MeasureDistances(const InstructionDag& dag);

}  // namespace espalier::program
