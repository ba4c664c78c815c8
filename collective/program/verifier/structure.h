#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collective/program/program.h"

namespace espalier::program {

enum class ViolationKind : std::uint8_t {
  kStructure,      // not a program at all: numbers out of range, blocks that share a connection
  kTooLarge,       // more work than the verifier does
  kDeadlock,       // no schedule gets to the end
  kCountMismatch,  // a message is of another size than its receive, or is never received
  kUninitialised,  // a chunk is read that nothing was written to
  kDoubleReduction,
  kWritesInput,  // of a call out of place
  kRace,         // two accesses, one of them a write, that nothing orders
  kPostcondition,
};
std::string_view ViolationKindName(ViolationKind kind);

// The first thing that is wrong. Where a part does not apply it is -1.
struct Violation {
  ViolationKind kind = ViolationKind::kStructure;
  std::int32_t rank = -1;
  std::int32_t block = -1;
  std::int32_t step = -1;
  std::string message;  // names the place too
};

Violation MakeViolation(ViolationKind kind, std::int32_t rank, std::int32_t block,
                        std::int32_t step, std::string_view what);

// A program by dense numbers: blocks of all ranks in their order, steps ("nodes") of all blocks in
// theirs, connections by their sender.
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
  std::vector<std::int32_t> first_block;  // of each rank, and one past the last
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

// Everything that can be said of a program without running it: ranks, peers, channels, places and
// dependencies are in range, buffers have the sizes of the collective, every connection that is
// used has one sending and one receiving block. The program must outlive the index.
StructureResult CheckStructure(const Program& program);

}  // namespace espalier::program
