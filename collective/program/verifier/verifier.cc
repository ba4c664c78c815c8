#include "collective/program/verifier/verifier.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "collective/program/verifier/dataflow.h"
#include "collective/program/verifier/execution.h"
#include "collective/program/verifier/races.h"
#include "common/base/check.h"

namespace espalier::program {
namespace {

std::size_t At(std::int32_t id) { return static_cast<std::size_t>(id); }

std::int64_t CountChunks(const Program& program) {
  std::int64_t chunks = 0;
  for (const RankProgram& rank : program.ranks) {
    chunks += program.collective.chunks + rank.scratch_chunks;
    for (const ThreadBlock& block : rank.blocks) {
      for (const Step& step : block.steps) chunks += step.count;
    }
  }
  return chunks;
}

// The part of the budget for memory: the set of a chunk takes some tens of bytes.
constexpr std::int64_t kMemoryShare = 16;

// The fewer slots, the fewer programs end, so bisection finds the limit.
int FindNeededSlots(const ProgramIndex& index, int enough) {
  int too_few = 0;
  while (enough - too_few > 1) {
    const int middle = too_few + (enough - too_few) / 2;
    (Execute(index, middle).violation ? too_few : enough) = middle;
  }
  return enough;
}

}  // namespace

Verdict Verify(const Program& program, const VerifyOptions& options) {
  ESPALIER_CHECK(options.fifo_slots >= 1, "fifo_slots={}", options.fifo_slots);
  Verdict verdict;
  const auto refuse = [&](Violation violation) {
    verdict.violation = std::move(violation);
    return verdict;
  };
  StructureResult structure = CheckStructure(program);
  if (structure.violation) return refuse(std::move(*structure.violation));
  std::int64_t budget = options.budget;
  if (CountChunks(program) > budget / kMemoryShare) {
    return refuse(MakeViolation(ViolationKind::kTooLarge, -1, -1, -1, "too much to verify"));
  }
  Execution run = Execute(structure.index, options.fifo_slots);
  if (run.violation) return refuse(std::move(*run.violation));
  for (const bool in_place : {true, false}) {
    if (!(in_place ? program.placement.in_place : program.placement.out_of_place)) continue;
    DataflowResult data = CheckDataflow(program, structure.index, run, in_place, budget);
    if (data.violation) return refuse(std::move(*data.violation));
    verdict.same_bits = verdict.same_bits && data.same_bits;
    verdict.root = data.root;
  }
  if (auto race = FindRace(program, structure.index, run, budget)) return refuse(std::move(*race));
  verdict.needed_slots =
      FindNeededSlots(structure.index, std::clamp(run.most_outstanding, 1, options.fifo_slots));
  verdict.has_postcondition =
      program.collective.kind != CollectiveKind::kCustom || !program.collective.expected.empty();
  return verdict;
}

Cost MeasureCost(const Program& program, int ranks_per_host) {
  const StructureResult structure = CheckStructure(program);
  ESPALIER_CHECK(!structure.violation, "{}", structure.violation->message);
  const ProgramIndex& index = structure.index;
  const Execution run = Execute(index, std::numeric_limits<int>::max());
  ESPALIER_CHECK(!run.violation, "{}", run.violation->message);
  // Chains are compared by their steps between hosts first.
  constexpr int kCrossBits = 32;
  const auto weight = [&](std::int32_t from, std::int32_t to) {
    const bool is_cross = ranks_per_host > 0 && from / ranks_per_host != to / ranks_per_host;
    return is_cross ? std::int64_t{1} << kCrossBits : std::int64_t{1};
  };
  Cost cost;
  std::vector<std::int64_t> sent_by(program.ranks.size(), 0);
  std::vector<std::int64_t> last_on(index.connections.size(), 0);
  std::vector<std::int64_t> known_at(index.block_of_node.size(), 0);  // by node: step when done
  std::vector<std::int64_t> arrives(index.block_of_node.size(), 0);  // by node: step of its message
  for (const std::int32_t node : run.order) {
    const ProgramIndex::Block& block = index.blocks[At(index.BlockOf(node))];
    const Step& step = index.StepOf(node);
    std::int64_t known = node > block.first_node ? known_at[At(node - 1)] : 0;
    for (const Dependency& on : step.after) {
      const auto& other = index.blocks[At(index.first_block[At(block.rank)] + on.block)];
      known = std::max(known, known_at[At(other.first_node + on.step)]);
    }
    if (Receives(step.op)) known = std::max(known, arrives[At(run.received_of[At(node)])]);
    known_at[At(node)] = known;
    if (!Sends(step.op)) continue;
    std::int64_t& last = last_on[At(block.send_connection)];
    last = std::max(last, known) + weight(block.rank, block.program->send_peer);
    arrives[At(node)] = last;
    cost.steps = std::max(cost.steps, last);
    sent_by[At(block.rank)] += step.count;
    cost.total_chunks_sent += step.count;
    ++cost.messages;
  }
  cost.cross_steps = cost.steps >> kCrossBits;
  cost.steps -= (cost.cross_steps << kCrossBits) - cost.cross_steps;
  cost.most_chunks_sent = *std::ranges::max_element(sent_by);
  return cost;
}

}  // namespace espalier::program
