#include "collective/program/passes/thread_blocks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/check.h"

namespace espalier::program {
namespace {

std::size_t At(std::int32_t id) { return static_cast<std::size_t>(id); }

// The place of a step, and the progress of each block of its rank that its execution implies.
struct Placed {
  std::int32_t block = kNone;
  std::int32_t step = kNone;
  std::vector<std::int32_t> clock;  // by block: its steps that are done once this one is
};

class Rank {
 public:
  // Blocks for fused instructions are created first: they own the connections that they use.
  void AddPeers(std::int32_t from, std::int32_t to, std::int32_t channel) {
    const bool has_in = from == kNoPeer || receivers_.contains({from, channel});
    const bool has_out = to == kNoPeer || senders_.contains({to, channel});
    if (has_in && has_out) return;
    ESPALIER_CHECK(from == kNoPeer || to == kNoPeer || has_in == has_out, "from={} to={}", from,
                   to);
    const auto id = static_cast<std::int32_t>(blocks_.size());
    ThreadBlock& block = blocks_.emplace_back();
    block.send_peer = to;
    block.receive_peer = from;
    block.channel = channel;
    if (from != kNoPeer) receivers_[{from, channel}] = id;
    if (to != kNoPeer) senders_[{to, channel}] = id;
  }

  void AddLocalBlock() {
    if (blocks_.empty()) blocks_.emplace_back();
  }

  std::int32_t Find(std::int32_t from, std::int32_t to, std::int32_t channel) const {
    if (from != kNoPeer) return receivers_.at({from, channel});
    if (to != kNoPeer) return senders_.at({to, channel});
    const auto idlest = std::ranges::min_element(latest_);
    return static_cast<std::int32_t>(idlest - latest_.begin());
  }

  void Prepare() {
    latest_.assign(blocks_.size(), kNone);
    clocks_.assign(blocks_.size(), std::vector<std::int32_t>(blocks_.size(), 0));
  }

  Placed Place(const Instruction& instruction, std::int32_t block, std::int32_t position,
               std::vector<const Placed*> before) {
    Step step{.op = instruction.op,
              .source = instruction.source,
              .destination = instruction.destination,
              .count = instruction.count};
    std::vector<std::int32_t>& clock = clocks_[At(block)];
    // The latest comes first, as the dependencies that it implies need not be added.
    std::ranges::reverse(before);
    for (const Placed* one : before) {
      if (clock[At(one->block)] > one->step) continue;
      step.after.push_back({one->block, one->step});
      for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], one->clock[i]);
    }
    std::vector<Step>& steps = blocks_[At(block)].steps;
    const auto number = static_cast<std::int32_t>(steps.size());
    steps.push_back(std::move(step));
    latest_[At(block)] = position;
    clock[At(block)] = number + 1;
    return {block, number, clock};
  }

  std::vector<ThreadBlock> Take() { return std::move(blocks_); }

 private:
  using Key = std::pair<std::int32_t, std::int32_t>;  // peer, channel
  std::vector<ThreadBlock> blocks_;
  std::map<Key, std::int32_t> receivers_;
  std::map<Key, std::int32_t> senders_;
  std::vector<std::int32_t> latest_;  // position of each block's last step in the global order
  std::vector<std::vector<std::int32_t>> clocks_;
};

// Problem: divide the instructions of each rank into blocks so that each connection belongs to one
// block, and keep all processing edges with few explicit dependencies.
//
// Idea: a fused instruction fixes a pair of connections, so its block is created first; other
// connections get blocks of their own. Instructions are placed in the global order. A vector clock
// per block counts the steps of every other block that are known to be done. An edge that the clock
// implies needs no dependency; another one is added and merges the clock of the step that it names.
//
// Invariant: clocks_[b][c] is the number of steps of block c that precede the next step of block b.
// Cost: instructions and edges times the blocks of a rank.
// Source: GC3, section 5.2; vector clocks after Fidge and Mattern.
class Assigner {
 public:
  Assigner(const InstructionDag& dag, const std::vector<std::int32_t>& order)
      : dag_(dag), order_(order), ranks_(At(dag.collective.ranks)) {}

  std::vector<RankProgram> Run() {
    CreateBlocks();
    // The position of each instruction in the global order.
    std::vector<std::int32_t> position(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      position[At(order_[i])] = static_cast<std::int32_t>(i);
    }
    std::vector<Placed> placed(order_.size());
    for (const std::int32_t id : order_) {
      const Instruction& instruction = dag_.instructions[At(id)];
      std::vector<std::int32_t> after = instruction.after;
      std::ranges::sort(after, {}, [&](std::int32_t other) { return position[At(other)]; });
      std::vector<const Placed*> before;
      for (const std::int32_t other : after) before.push_back(&placed[At(other)]);
      Rank& rank = ranks_[At(instruction.rank)];
      const std::int32_t block =
          rank.Find(PeerFrom(instruction), PeerTo(instruction), instruction.channel);
      placed[At(id)] = rank.Place(instruction, block, position[At(id)], std::move(before));
    }
    std::vector<RankProgram> programs;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const auto rank = static_cast<std::int32_t>(i);
      programs.push_back({.input_chunks = dag_.collective.InputChunks(rank),
                          .output_chunks = dag_.collective.OutputChunks(rank),
                          .scratch_chunks = dag_.scratch_chunks[i],
                          .blocks = ranks_[i].Take()});
    }
    return programs;
  }

 private:
  std::int32_t PeerFrom(const Instruction& instruction) const {
    if (instruction.receives_from == kNone) return kNoPeer;
    return dag_.instructions[At(instruction.receives_from)].rank;
  }
  std::int32_t PeerTo(const Instruction& instruction) const {
    if (instruction.sends_to == kNone) return kNoPeer;
    return dag_.instructions[At(instruction.sends_to)].rank;
  }

  void CreateBlocks() {
    for (const bool is_fused : {true, false}) {
      for (const Instruction& instruction : dag_.instructions) {
        const std::int32_t from = PeerFrom(instruction);
        const std::int32_t to = PeerTo(instruction);
        if (from == kNoPeer && to == kNoPeer) continue;
        if ((from != kNoPeer && to != kNoPeer) != is_fused) continue;
        ranks_[At(instruction.rank)].AddPeers(from, to, instruction.channel);
      }
    }
    for (const Instruction& instruction : dag_.instructions) {
      ranks_[At(instruction.rank)].AddLocalBlock();
    }
    for (Rank& rank : ranks_) rank.Prepare();
  }

  const InstructionDag& dag_;
  const std::vector<std::int32_t>& order_;
  std::vector<Rank> ranks_;
};

}  // namespace

std::vector<RankProgram> AssignThreadBlocks(const InstructionDag& dag,
                                            const std::vector<std::int32_t>& order) {
  return Assigner(dag, order).Run();
}

}  // namespace espalier::program
