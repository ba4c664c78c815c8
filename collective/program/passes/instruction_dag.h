#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/program/program.h"

namespace espalier::program {

constexpr std::int32_t kNone = -1;

// A node of the Instruction DAG (GC3, section 4.2): what one rank does.
struct Instruction {
  OpCode op = OpCode::kNop;
  std::int32_t rank = 0;
  Location source;
  Location destination;
  std::int32_t count = 1;

  // Communication edges, as indices of instructions at the other ranks.
  std::int32_t receives_from = kNone;
  std::int32_t sends_to = kNone;
  std::int32_t channel = kNone;  // as directed, then as assigned; of all its edges
  std::int32_t instance = 0;     // which part of a parallelized operation
  std::int32_t instances = 1;

  // Processing edges: what must be done before at this rank. Earlier in the order of the list.
  std::vector<std::int32_t> after;
  // The instruction whose whole result (and nothing else) is this one's source; or none.
  std::int32_t source_writer = kNone;
  // A send that is to become one with this receive; or none.
  std::int32_t fused_send = kNone;
};

struct InstructionDag {
  std::string name;
  CollectiveSpec collective;
  BufferPlacement placement;
  std::vector<int> scratch_chunks;
  std::vector<Instruction> instructions;  // in an order that respects every edge
};

}  // namespace espalier::program
