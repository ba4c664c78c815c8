#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collective/synthesis/construction.h"
#include "collective/synthesis/graphs/families.h"
#include "collective/synthesis/schedules/schedule_json.h"
#include "collective/synthesis/schedules/schedule_program.h"
#include "common/base/check.h"

namespace {

using espalier::fabric::Topology;
using espalier::synthesis::Digraph;

const Digraph& Square() {
  static const Digraph graph = espalier::synthesis::BuildCompleteBipartite(2)->graph;
  return graph;
}

const Topology& Network() {
  static const Topology topology = *Topology::Build(espalier::synthesis::WriteNetwork(
      "square", Square(), espalier::BitsPerSecond{1'000'000'000}));
  return topology;
}

// A construction that is read is written as it was read.
void ReadConstruction(std::string_view text) {
  const auto construction = espalier::synthesis::ParseConstruction(text);
  if (!construction.has_value()) return;
  const std::string written = espalier::synthesis::FormatConstruction(*construction);
  const auto again = espalier::synthesis::ParseConstruction(written);
  ESPALIER_CHECK(again.has_value() && *again == *construction, "{}", written);
  ESPALIER_CHECK(!espalier::synthesis::Notation(*construction).empty());
}

}  // namespace

// Arbitrary bytes as a schedule file give an error with its place, a schedule that the verifier
// refuses, or a valid one, which is the same after it is written and read, and can be lowered.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ReadConstruction(text);
  const auto file = espalier::synthesis::ParseScheduleJson(text, "f", Network());
  if (!file.has_value()) {
    ESPALIER_CHECK(file.error().message.starts_with("f:"), "{}", file.error().message);
    return 0;
  }
  const auto cost = espalier::synthesis::VerifyScheduleFile(Square(), *file);
  if (!cost.has_value()) return 0;
  const auto json = espalier::synthesis::FormatScheduleJson(Network(), file->schedule, *cost);
  ESPALIER_CHECK(json.has_value(), "{}", json.error().message);
  const auto again = espalier::synthesis::ParseScheduleJson(*json, "f", Network());
  ESPALIER_CHECK(again.has_value(), "{}", again.error().message);
  const auto same = espalier::synthesis::VerifyScheduleFile(Square(), *again);
  ESPALIER_CHECK(same.has_value() && same->t_b == cost->t_b);
  if (file->schedule.chunks > 64 || cost->duplicate_chunks > 0) return 0;
  ESPALIER_CHECK(espalier::synthesis::MakeScheduleProgram("f", file->schedule).has_value());
  return 0;
}
