#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "collective/forest/files/forest_binary.h"
#include "collective/forest/files/forest_json.h"
#include "collective/forest/files/forest_summary.h"
#include "collective/forest/files/parse_forest_json.h"
#include "collective/forest/verifier/verifier.h"
#include "common/base/check.h"
#include "common/fabric/builders.h"

namespace {

using espalier::Result;
using espalier::fabric::Topology;
using espalier::forest::TreeSchedule;

// Four hosts on two leaves and two spines.
const Topology& Fabric() {
  static const Topology fabric = *Topology::Build(
      *espalier::fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}));
  return fabric;
}

Result<TreeSchedule> Read(std::string_view text) {
  if (text.starts_with(espalier::forest::kForestMagic)) {
    return espalier::forest::DecodeForest(text, "f", Fabric());
  }
  return espalier::forest::ParseForestJson(text, "f", Fabric());
}

}  // namespace

// Arbitrary bytes as a forest file give an error with its place, a schedule that the verifier
// refuses, or a valid one, which can be written in every format and is valid when read back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Result<TreeSchedule> plan = Read({reinterpret_cast<const char*>(data), size});
  if (!plan.has_value()) {
    ESPALIER_CHECK(plan.error().message.starts_with("f:"), "{}", plan.error().message);
    return 0;
  }
  const auto findings = espalier::forest::VerifySchedule(Fabric(), *plan);
  if (!findings.has_value()) return 0;
  const auto json = espalier::forest::FormatForestJson(Fabric(), *plan, {});
  ESPALIER_CHECK(json.has_value(), "{}", json.error().message);
  for (const std::string& text : {*json, espalier::forest::EncodeForest(Fabric(), *plan)}) {
    const Result<TreeSchedule> again = Read(text);
    ESPALIER_CHECK(again.has_value(), "{}", again.error().message);
    const auto sound = espalier::forest::VerifySchedule(Fabric(), *again);
    ESPALIER_CHECK(sound.has_value(), "{}", sound.error().message);
    ESPALIER_CHECK(sound->heights.max == findings->heights.max);
  }
  ESPALIER_CHECK(!espalier::forest::SummariseForest(Fabric(), *plan, *findings).empty());
  for (std::size_t tree = 0; tree < plan->forests[plan->phases[0].forest].classes.size(); ++tree) {
    ESPALIER_CHECK(espalier::forest::FormatTreeAsDot(Fabric(), *plan, tree).has_value());
  }
  return 0;
}
