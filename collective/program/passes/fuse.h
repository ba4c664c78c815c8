#pragma once

#include "collective/program/passes/instruction_dag.h"

namespace espalier::program {

// Marks the pairs of a receive and a send of its result that can become one (GC3, section 4.2): of
// several sends the one on the longest way through the DAG. Both keep the same directives.
// Needs dependencies.
void ChooseFusions(InstructionDag& dag);

// Carries the marked fusions out: r + s = rcs, rrc + s = rrcs, and rrs where the result is read by
// nobody else, under every placement. Scratch that is no longer written goes. Finds the
// dependencies anew.
void ApplyFusions(InstructionDag& dag);

// Hops to come after and gone before each instruction: messages on the longest chain.
struct Distances {
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
};
Distances MeasureDistances(const InstructionDag& dag);

}  // namespace espalier::program
