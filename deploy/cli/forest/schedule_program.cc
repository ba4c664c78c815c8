#include "deploy/cli/forest/schedule_program.h"

#include <utility>

#include "collective/algorithms/forest_program.h"
#include "collective/program/files/format_msccl_xml.h"
#include "collective/program/files/format_mscclpp_json.h"
#include "collective/program/files/program_file.h"
#include "collective/program/verifier/verifier.h"

namespace espalier::forest {
namespace {

constexpr int kSlots = 2;  // of a connection in MSCCL

Result<program::Program> MakeProgram(const TreeSchedule& schedule) {
  const std::string name = "forest-" + std::string(CollectiveName(schedule.collective));
  auto made = algorithms::MakeForestProgram(name, schedule, kSlots);
  if (!made) return Propagate(made);
  const program::Verdict verdict = program::Verify(made->program, {.fifo_slots = kSlots});
  if (!verdict.violation) return std::move(made->program);
  const bool is_too_large = verdict.violation->kind == program::ViolationKind::kTooLarge;
  return Fail(is_too_large ? ErrorCode::kResourceExhausted : ErrorCode::kInternal,
              name + ": " + verdict.violation->message);
}

}  // namespace

Result<std::string> FormatAsProgramJson(const TreeSchedule& schedule) {
  auto program = MakeProgram(schedule);
  if (!program) return Propagate(program);
  return program::FormatProgramJson(*program);
}

Result<std::string> FormatAsMscclXml(const TreeSchedule& schedule) {
  auto program = MakeProgram(schedule);
  if (!program) return Propagate(program);
  return program::FormatMscclXml(*program);
}

Result<std::string> FormatAsMscclppJson(const TreeSchedule& schedule) {
  auto program = MakeProgram(schedule);
  if (!program) return Propagate(program);
  return program::FormatMscclppJson(*program);
}

}  // namespace espalier::forest
