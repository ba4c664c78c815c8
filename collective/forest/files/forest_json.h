#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "collective/forest/allreduce/allreduce_proof.h"
#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::io {
class JsonWriter;
}

namespace espalier::forest {

// How long each stage of computing a schedule took.
struct StageSeconds {
  double bound = 0;
  double switch_removal = 0;
  double packing = 0;
  double height = 0;
  double verify = 0;
};

// Formats a tree schedule as JSON (docs/formats.md), every tree with the paths of its edges. For
// small forests.
//
// Precondition: the verifier has accepted the schedule.
// Errors: kResourceExhausted for more than kMaxForestJson characters (use the binary format).
inline constexpr std::size_t kMaxForestJson = 50'000'000;
Result<std::string> FormatForestJson(const fabric::Topology& topology, const TreeSchedule& schedule,
                                     const StageSeconds& seconds,
                                     const std::optional<AllreduceProof>& proof = std::nullopt);
// Writes the member "proof" of an object.
void WriteProof(const AllreduceProof& proof, io::JsonWriter& writer);

}  // namespace espalier::forest
