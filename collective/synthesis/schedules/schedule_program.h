#pragma once

#include <string>

#include "collective/program/program.h"
#include "collective/synthesis/schedules/schedule.h"
#include "common/base/result.h"

namespace espalier::synthesis {

// Lowers a schedule that VerifySchedule has accepted to a collective program (section 3.7). Rank n
// is node n; each rank's share is cut into the schedule's chunks. What a node sends to another in
// one step is one message for each run of adjacent chunks. The program keeps the order of the
// steps, but no rank waits for others at their ends.
// Near-linear in sends x chunks.
// Errors: kResourceExhausted for a program of too many chunks or operations; those of
// ProgramBuilder and Lower.
Result<program::Program> MakeScheduleProgram(const std::string& name, const Schedule& schedule,
                                             int fifo_slots = 2);

}  // namespace espalier::synthesis
