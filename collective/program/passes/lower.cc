#include "collective/program/passes/lower.h"

#include "collective/program/passes/channels.h"
#include "collective/program/passes/dependencies.h"
#include "collective/program/passes/expand.h"
#include "collective/program/passes/fuse.h"
#include "collective/program/passes/schedule.h"
#include "collective/program/passes/thread_blocks.h"
#include "common/base/check.h"

namespace espalier::program {
namespace {

Program MakeProgram(const InstructionDag& dag, const std::vector<std::int32_t>& order) {
  Program program;
  program.name = dag.name;
  program.collective = dag.collective;
  program.placement = dag.placement;
  program.ranks = AssignThreadBlocks(dag, order);
  return program;
}

}  // namespace

Result<Program> Lower(const ChunkDag& chunks, const LowerOptions& options) {
  ESPALIER_CHECK(options.fifo_slots >= 1, "fifo_slots={}", options.fifo_slots);
  for (const bool fuse : {true, false}) {
    if (fuse && !options.fuse) continue;
    // A large program is expanded again in the rare second round rather than kept twice.
    auto expanded = Expand(chunks);
    if (!expanded) return Propagate(expanded);
    InstructionDag& dag = *expanded;
    FindDependencies(dag);
    if (fuse) ChooseFusions(dag);
    if (auto assigned = AssignChannels(dag); !assigned) return Propagate(assigned);
    ApplyFusions(dag);
    for (const auto priority : {SchedulePriority::kDepth, SchedulePriority::kTrace}) {
      if (const auto order = Schedule(dag, options.fifo_slots, priority)) {
        return MakeProgram(dag, *order);
      }
    }
  }
  ESPALIER_CHECK(false, "{}: an unfused program has no valid order", chunks.name);
  return Program();
}

}  // namespace espalier::program
