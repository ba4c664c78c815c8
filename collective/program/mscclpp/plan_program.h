#pragma once

#include "collective/program/mscclpp/plan.h"
#include "collective/program/mscclpp/plan_run.h"
#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

// Lowers an execution plan to a program that does the same on the same chunks, by the builder and
// its passes: the transfers of one run, in their order, are a chunk-oriented program. Races are
// excluded, so the order does not matter. The program keeps the plan's transfers, not its blocks.
// Verify decides whether its results are right.
// Precondition: `run` is the result of RunPlan, without a violation.
// Errors: those of ProgramBuilder and Lower.
Result<Program> MakePlanProgram(const ExecutionPlan& plan, const PlanRunResult& run);

}  // namespace espalier::program
