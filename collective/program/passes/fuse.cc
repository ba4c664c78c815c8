#include "collective/program/passes/fuse.h"

#include <algorithm>

#include "collective/program/memory_map.h"
#include "collective/program/passes/dependencies.h"

namespace espalier::program {
namespace {

std::size_t At(std::int32_t id) { return static_cast<std::size_t>(id); }

bool SameDirectives(const Instruction& a, const Instruction& b) {
  return a.channel == b.channel && a.instance == b.instance && a.instances == b.instances;
}

// Problem: a receive whose result is sent on can become one instruction. If nothing else reads the
// result, the fused instruction need not store it (rrs instead of rrcs).
//
// Idea: simulate which instruction last wrote each cell of memory. A write is live if an
// instruction other than its fused send reads the cell before the next write, or if the cell is in
// the output at the end. This is done for each buffer placement, and a result that is live in any
// of them is stored.
//
// Invariant: instructions are visited in an order that respects every edge, so `writers_` holds the
// write that each read sees.
// Cost: linear in the chunks that instructions touch, for each placement.
// Source: GC3, section 4.2; MSCCL's instruction fusion.
class Liveness {
 public:
  Liveness(const InstructionDag& dag, bool in_place)
      : dag_(dag), live_(dag.instructions.size(), false) {
    for (int rank = 0; rank < dag.collective.ranks; ++rank) {
      const auto& map =
          maps_.emplace_back(dag.collective, rank, dag.scratch_chunks[At(rank)], in_place);
      writers_.emplace_back(At(map.cells()), kNone);
    }
  }

  std::vector<bool> Find() {
    for (std::size_t i = 0; i < dag_.instructions.size(); ++i) {
      Visit(static_cast<std::int32_t>(i));
    }
    for (int rank = 0; rank < dag_.collective.ranks; ++rank) {
      const MemoryMap& map = maps_[At(rank)];
      for (int chunk = 0; chunk < dag_.collective.OutputChunks(rank); ++chunk) {
        MarkLive(writers_[At(rank)][At(map.Cell({Buffer::kOutput, chunk}))]);
      }
    }
    return std::move(live_);
  }

 private:
  void MarkLive(std::int32_t writer) {
    if (writer != kNone) live_[At(writer)] = true;
  }

  template <typename Visitor>
  void ForCells(const Instruction& instruction, Location location, Visitor visit) {
    auto& cells = writers_[At(instruction.rank)];
    const auto first = At(maps_[At(instruction.rank)].Cell(location));
    for (std::size_t i = 0; i < At(instruction.count); ++i) visit(cells[first + i]);
  }

  void Visit(std::int32_t id) {
    const Instruction& instruction = dag_.instructions[At(id)];
    const auto mark = [this](std::int32_t writer) { MarkLive(writer); };
    const bool is_fused = instruction.source_writer != kNone &&
                          dag_.instructions[At(instruction.source_writer)].fused_send == id;
    if (ReadsSource(instruction.op) && !is_fused) ForCells(instruction, instruction.source, mark);
    if (ReadsDestination(instruction.op)) ForCells(instruction, instruction.destination, mark);
    if (WritesDestination(instruction.op)) {
      ForCells(instruction, instruction.destination, [id](std::int32_t& writer) { writer = id; });
    }
  }

  const InstructionDag& dag_;
  std::vector<MemoryMap> maps_;
  std::vector<std::vector<std::int32_t>> writers_;
  std::vector<bool> live_;
};

std::vector<bool> FindLive(const InstructionDag& dag) {
  std::vector<bool> live(dag.instructions.size(), false);
  for (const bool in_place : {true, false}) {
    if (!(in_place ? dag.placement.in_place : dag.placement.out_of_place)) continue;
    const std::vector<bool> here = Liveness(dag, in_place).Find();
    for (std::size_t i = 0; i < live.size(); ++i) live[i] = live[i] || here[i];
  }
  return live;
}

OpCode FusedOp(OpCode receive, bool is_live) {
  if (receive == OpCode::kReceive) return OpCode::kReceiveCopySend;
  return is_live ? OpCode::kReceiveReduceCopySend : OpCode::kReceiveReduceSend;
}

// Renumbers the used chunks of scratch memory from 0 on. Consecutive chunks stay consecutive.
void CompactScratch(InstructionDag& dag) {
  std::vector<std::vector<std::int32_t>> used;
  for (const int scratch : dag.scratch_chunks) used.emplace_back(At(scratch) + 1, 0);
  const auto for_places = [&dag](auto visit) {
    for (Instruction& instruction : dag.instructions) {
      const bool reads = ReadsSource(instruction.op);
      const bool writes = WritesDestination(instruction.op);
      if (reads && instruction.source.buffer == Buffer::kScratch) {
        visit(instruction, instruction.source);
      }
      if (writes && instruction.destination.buffer == Buffer::kScratch) {
        visit(instruction, instruction.destination);
      }
      // An unused location repeats the other one.
      if (!reads) instruction.source = instruction.destination;
      if (!writes) instruction.destination = instruction.source;
    }
  };
  for_places([&used](const Instruction& instruction, const Location& place) {
    for (std::int32_t i = 0; i < instruction.count; ++i) {
      used[At(instruction.rank)][At(place.index + i)] = 1;
    }
  });
  for (std::size_t rank = 0; rank < used.size(); ++rank) {
    std::int32_t next = 0;
    for (std::int32_t& chunk : used[rank]) {
      const std::int32_t is_used = chunk;
      chunk = next;
      next += is_used;
    }
    dag.scratch_chunks[rank] = next;
  }
  for_places([&used](const Instruction& instruction, Location& place) {
    place.index = used[At(instruction.rank)][At(place.index)];
  });
}

}  // namespace

Distances MeasureDistances(const InstructionDag& dag) {
  const std::size_t size = dag.instructions.size();
  Distances distances{std::vector<std::int32_t>(size, 0), std::vector<std::int32_t>(size, 0)};
  for (std::size_t i = 0; i < size; ++i) {
    std::int32_t& before = distances.before[i];
    const Instruction& instruction = dag.instructions[i];
    for (const auto id : instruction.after) before = std::max(before, distances.before[At(id)]);
    if (instruction.receives_from != kNone) {
      before = std::max(before, distances.before[At(instruction.receives_from)] + 1);
    }
  }
  for (std::size_t i = size; i-- > 0;) {
    const Instruction& instruction = dag.instructions[i];
    for (const auto id : instruction.after) {
      distances.after[At(id)] = std::max(distances.after[At(id)], distances.after[i]);
    }
    if (instruction.receives_from != kNone) {
      std::int32_t& after = distances.after[At(instruction.receives_from)];
      after = std::max(after, distances.after[i] + 1);
    }
  }
  return distances;
}

void ChooseFusions(InstructionDag& dag) {
  const Distances distances = MeasureDistances(dag);
  for (std::size_t i = 0; i < dag.instructions.size(); ++i) {
    const Instruction& send = dag.instructions[i];
    if (send.op != OpCode::kSend || send.source_writer == kNone) continue;
    Instruction& receive = dag.instructions[At(send.source_writer)];
    if (receive.receives_from == kNone || !SameDirectives(send, receive)) continue;
    if (receive.fused_send == kNone ||
        distances.after[i] > distances.after[At(receive.fused_send)]) {
      receive.fused_send = static_cast<std::int32_t>(i);
    }
  }
}

void ApplyFusions(InstructionDag& dag) {
  const std::vector<bool> live = FindLive(dag);
  std::vector<bool> is_gone(dag.instructions.size(), false);
  for (std::size_t i = 0; i < dag.instructions.size(); ++i) {
    Instruction& receive = dag.instructions[i];
    if (receive.fused_send == kNone) continue;
    is_gone[At(receive.fused_send)] = true;
    receive.sends_to = dag.instructions[At(receive.fused_send)].sends_to;
    dag.instructions[At(receive.sends_to)].receives_from = static_cast<std::int32_t>(i);
    receive.op = FusedOp(receive.op, live[i]);
  }
  std::vector<std::int32_t> renamed(dag.instructions.size(), kNone);
  std::vector<Instruction> kept;
  for (std::size_t i = 0; i < dag.instructions.size(); ++i) {
    if (is_gone[i]) continue;
    renamed[i] = static_cast<std::int32_t>(kept.size());
    kept.push_back(std::move(dag.instructions[i]));
  }
  for (Instruction& instruction : kept) {
    instruction.fused_send = kNone;
    if (instruction.sends_to != kNone) instruction.sends_to = renamed[At(instruction.sends_to)];
    if (instruction.receives_from != kNone) {
      instruction.receives_from = renamed[At(instruction.receives_from)];
    }
  }
  dag.instructions = std::move(kept);
  CompactScratch(dag);
  FindDependencies(dag);
}

}  // namespace espalier::program
