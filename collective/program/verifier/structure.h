#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collective/program/program.h"

namespace espalier::program {

enum class ViolationKind : std::uint8_t {
  kStructure,      // not a program: numbers out of range, blocks that share a connection
  kTooLarge,       // more work than the verifier's limit
  kDeadlock,       // no schedule reaches the end
  kCountMismatch,  // a message's size differs from its receive's, or it is never received
  kUninitialised,  // a chunk is read before it was written
  kDoubleReduction,
  kWritesInput,  // by a call out of place
  kRace,         // two unordered accesses, one of them a write
  kPostcondition,
};
std::string_view ViolationKindName(ViolationKind kind);

// The first violation found. Parts that do not apply are -1.
struct Violation {
  ViolationKind kind = ViolationKind::kStructure;
  std::int32_t rank = -1;
  std::int32_t block = -1;
  std::int32_t step = -1;
  std::string message;  // includes the place
};

Violation MakeViolation(ViolationKind kind, std::int32_t rank, std::int32_t block,
                        std::int32_t step, std::string_view what);

// A program by dense numbers: blocks of all ranks in their order, steps ("nodes") of all blocks in
// their order, connections by their sender.
struct ProgramIndex {
  struct Block {
    std::int32_t rank = 0;
    std::int32_t number = 0;  // within its rank
    std::int32_t first_node = 0;
    std::int32_t send_connection = -1;
    std::int32_t receive_connection = -1;
    const ThreadBlock* program = nullptr;
  };
  struct Connection {
    std::int32_t sender = -1;    // block
    std::int32_t receiver = -1;  // block
  };
  std::vector<Block> blocks;
  std::vector<std::int32_t> first_block;  // by rank, and one past the last
  std::vector<std::int32_t> block_of_node;
  std::vector<Connection> connections;

  const Step& StepOf(std::int32_t node) const {
    const Block& block = blocks[static_cast<std::size_t>(BlockOf(node))];
    return block.program->steps[static_cast<std::size_t>(node - block.first_node)];
  }
  std::int32_t BlockOf(std::int32_t node) const {
    return block_of_node[static_cast<std::size_t>(node)];
  }
  Violation ViolationAt(ViolationKind kind, std::int32_t node, std::string_view what) const;
};

struct StructureResult {
  ProgramIndex index;
  std::optional<Violation> violation;
};

// Checks everything that can be checked without running the program: ranks, peers, channels,
// locations and dependencies are in range, buffers have the sizes of the collective, and every used
// connection has one sending and one receiving block. The program must outlive the index.
StructureResult CheckStructure(const Program& program);

// Checks what a rank can check of its own part of a program: that all steps stay within its buffers
// and slots, refer to steps and ranks that exist, and share no connection. So a wrong part cannot
// read or write anywhere else. That the parts fit together, end, and give the collective's result
// only the verifier of the whole program can show. Precondition: program.part is set.
std::optional<Violation> CheckPart(const Program& program);

}  // namespace espalier::program
