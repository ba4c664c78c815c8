#pragma once

#include <string>
#include <string_view>

#include "collective/synthesis/schedules/schedule.h"
#include "collective/synthesis/schedules/verifier.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::synthesis {

// A schedule as its file states it.
struct ScheduleFile {
  Schedule schedule;
  Rational t_l;  // in alpha
  Rational t_b;  // in M/B
};

// Formats a schedule of the topology's nodes, with its cost (docs/formats.md).
// Errors: kResourceExhausted for more than kMaxScheduleJson characters.
constexpr std::size_t kMaxScheduleJson = 50'000'000;
Result<std::string> FormatScheduleJson(const fabric::Topology& topology, const Schedule& schedule,
                                       const ScheduleCost& cost);

// Parses a schedule. Whether it is valid and the cost is right is left to VerifySchedule.
// Errors: kInvalidArgument "NAME:LINE:COL: what" for bad JSON, unknown fields and nodes, wrong
// types and numbers out of range; kResourceExhausted for more than kMaxChunks chunks.
Result<ScheduleFile> ParseScheduleJson(std::string_view text, std::string_view name,
                                       const fabric::Topology& topology);

// Checks a schedule with VerifySchedule, and that its cost is what the file states.
// Errors: those of VerifySchedule.
Result<ScheduleCost> VerifyScheduleFile(const Digraph& graph, const ScheduleFile& file);

}  // namespace espalier::synthesis
