#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "collective/program/program.h"

namespace espalier::program {

// A slow, plain interpreter of programs on numbers, as an oracle: memory is a vector of numbers for
// each buffer, a reduction is a sum modulo 2^64, a chunk is one number.
class ReferenceRun {
 public:
  // `random` supplies the inputs and decides which block moves next. It also fills unwritten
  // memory, so that a read of it shows.
  ReferenceRun(const Program& program, bool in_place, int fifo_slots, std::mt19937_64& random);

  // Whether every block reached its end and every message was received.
  bool Run();

  // Whether output chunk `index` of `rank` is the sum of inputs that the collective defines.
  bool IsRight(int rank, int index) const;
  // Whether all outputs are correct.
  bool IsRight() const;

 private:
  using Memory = std::vector<std::uint64_t>;
  struct Message {
    std::vector<std::uint64_t> chunks;
  };
  struct BlockState {
    int rank = 0;
    const ThreadBlock* block = nullptr;
    std::size_t done = 0;
  };

  std::uint64_t& At(int rank, Location location, int i);
  std::vector<Message>& Connection(int from, int to, int channel);
  bool CanStep(const BlockState& state);
  bool Perform(BlockState& state);

  const Program& program_;
  bool in_place_;
  std::size_t fifo_slots_;
  std::mt19937_64& random_;
  std::vector<Memory> inputs_at_start_;
  std::vector<std::vector<Memory>> memory_;  // by rank: input, output, scratch
  std::vector<BlockState> blocks_;
  std::vector<std::pair<std::vector<int>, std::vector<Message>>> connections_;
};

}  // namespace espalier::program
