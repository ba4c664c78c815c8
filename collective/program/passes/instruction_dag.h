#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/program/program.h"

namespace espalier::program {

constexpr std::int32_t kNone = -1;

// A node of the Instruction DAG (GC3, section 4.2): an operation of one rank.
struct Instruction {
  OpCode op = OpCode::kNop;
  std::int32_t rank = 0;
  Location source;
  Location destination;
  std::int32_t count = 1;

  // Communication edges, as indices of instructions at the other ranks.
  std::int32_t receives_from = kNone;
  std::int32_t sends_to = kNone;
  std::int32_t channel = kNone;  // of all its edges: as directed, then as assigned
  std::int32_t instance = 0;     // which part of a parallelized operation
  std::int32_t instances = 1;

  // Processing edges: instructions of this rank that must be done before. They are earlier in the
  // list.
  std::vector<std::int32_t> after;
  // The instruction whose whole result, and nothing else, is this one's source; or none.
  std::int32_t source_writer = kNone;
  // The send that will be fused with this receive; or none.
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
