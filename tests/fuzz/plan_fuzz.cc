#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/local/rank_plan_client.h"
#include "collective/program/program_bytes.h"
#include "collective/program/verifier/verifier.h"
#include "collective/runtime/choice/cost_table.h"
#include "common/base/check.h"

namespace {

// Checks that a program is written as it was read, and that it has a cost if the verifier accepts
// it.
void TryProgram(std::string_view bytes) {
  namespace program = espalier::program;
  const auto read = program::DecodeProgram(bytes);
  if (!read) return;
  const auto again = program::DecodeProgram(program::EncodeProgram(*read));
  ESPALIER_CHECK(again && *again == *read);
  if (program::Verify(*read, {.budget = 1 << 20}).violation) return;
  program::MeasureCost(*read);
}

}  // namespace

// Arbitrary bytes as the inputs of a rank: a plan file with a program, a program alone, and a file
// of costs.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace runtime = espalier::runtime;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  TryProgram(bytes);
  const auto plan = espalier::agent::ParsePlanFile(bytes);
  if (plan) {
    ESPALIER_CHECK(plan->rank >= 0 && plan->rank < plan->ranks);
    TryProgram(plan->program);
  }
  const auto costs = runtime::ParseCosts(bytes);
  if (!costs) return 0;
  const auto again = runtime::ParseCosts(runtime::FormatCosts(*costs));
  ESPALIER_CHECK(again && again->size() == costs->size());
  for (const auto& entry : *costs) {
    const double seconds = runtime::Predict(entry.costs, {.rounds = 1, .bytes = 1});
    ESPALIER_CHECK(seconds >= 0);
  }
  return 0;
}
