#include "collective/program/passes/expand.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace espalier::program {
namespace {

constexpr std::int64_t kMaxChunks = std::int64_t{1} << 26;
constexpr std::int64_t kMaxMoves = std::int64_t{1} << 22;

// Describes the same collective on chunks that are cut into `parts`.
CollectiveSpec Refine(CollectiveSpec spec, int parts) {
  if (parts == 1) return spec;
  spec.chunks *= parts;
  for (int& count : spec.counts) count *= parts;
  std::vector<Expectation> expected;
  for (const Expectation& whole : spec.expected) {
    for (int part = 0; part < parts; ++part) {
      Expectation& one = expected.emplace_back(whole);
      one.index = whole.index * parts + part;
      for (InputChunk& chunk : one.sum_of) chunk.index = chunk.index * parts + part;
    }
  }
  spec.expected = std::move(expected);
  return spec;
}

class Expander {
 public:
  Expander(InstructionDag& dag, int parts) : dag_(dag), parts_(parts) {}

  void Add(const ChunkOp& op) {
    const int count = op.count * parts_ / op.instances;
    for (int instance = 0; instance < op.instances; ++instance) {
      const auto part = [&](Location location) {
        return Location{location.buffer, location.index * parts_ + instance * count};
      };
      Instruction common;
      common.rank = op.rank;
      common.source = part(op.source);
      common.destination = part(op.destination);
      common.count = count;
      common.channel = op.channel;
      common.instance = instance;
      common.instances = op.instances;
      if (op.source_rank != op.rank) {
        AddRemote(op, common, part(op.operand));
      } else {
        AddLocal(op, common, part(op.operand));
      }
    }
  }

 private:
  void AddRemote(const ChunkOp& op, const Instruction& common, Location operand) {
    const auto sender = static_cast<std::int32_t>(dag_.instructions.size());
    Instruction send = common;
    send.op = OpCode::kSend;
    send.rank = op.source_rank;
    send.sends_to = sender + 1;
    Instruction receive = common;
    receive.op = op.reduces ? OpCode::kReceiveReduceCopy : OpCode::kReceive;
    receive.source = op.reduces ? operand : common.destination;
    receive.receives_from = sender;
    dag_.instructions.push_back(send);
    dag_.instructions.push_back(receive);
  }

  void AddLocal(const ChunkOp& op, const Instruction& common, Location operand) {
    if (op.reduces && operand != common.destination) {
      Instruction& copy = dag_.instructions.emplace_back(common);
      copy.op = OpCode::kCopy;
      copy.source = operand;
    }
    dag_.instructions.emplace_back(common).op = op.reduces ? OpCode::kReduce : OpCode::kCopy;
  }

  InstructionDag& dag_;
  int parts_;
};

}  // namespace

Result<InstructionDag> Expand(const ChunkDag& chunks) {
  std::int64_t parts = 1;
  std::int64_t moves = 0;
  for (const ChunkOp& op : chunks.ops) {
    moves += op.instances;
    if (parts <= kMaxChunks) parts = std::lcm(parts, std::int64_t{op.instances});
  }
  std::int64_t most = chunks.collective.chunks * parts;
  for (const int scratch : chunks.scratch_chunks) most = std::max(most, scratch * parts);
  if (moves > kMaxMoves) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{}: the {} operations of all parallel instances are too many",
                            chunks.name, moves));
  }
  if (most > kMaxChunks) {
    return Fail(
        ErrorCode::kResourceExhausted,
        fmt::format("{}: the {} chunks of a buffer with all parallel instances are too many",
                    chunks.name, most));
  }
  const auto cut = static_cast<int>(parts);
  InstructionDag dag{.name = chunks.name,
                     .collective = Refine(chunks.collective, cut),
                     .placement = chunks.placement,
                     .scratch_chunks = chunks.scratch_chunks};
  for (int& scratch : dag.scratch_chunks) scratch *= cut;
  Expander expander(dag, cut);
  for (const ChunkOp& op : chunks.ops) expander.Add(op);
  return dag;
}

}  // namespace espalier::program
