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

// How long the stages of making a plan took.
struct StageSeconds {
  double bound = 0;
  double switch_removal = 0;
  double packing = 0;
  double height = 0;
  double verify = 0;
};

// A plan as JSON (docs/formats.md), every tree with the paths of its edges: for small forests.
// The plan must be one that the verifier has passed.
// Errors: kResourceExhausted past kMaxForestJson characters (use the binary format).
inline constexpr std::size_t kMaxForestJson = 50'000'000;
Result<std::string> FormatForestJson(const fabric::Topology& topology, const TreeSchedule& plan,
                                     const StageSeconds& seconds,
                                     const std::optional<AllreduceProof>& proof = std::nullopt);
// The member "proof" of an object.
void WriteProof(const AllreduceProof& proof, io::JsonWriter& writer);

// Reads it back. What is not wrong in itself is left to the verifier.
// Errors: kInvalidArgument "NAME:LINE:COL: what": bad JSON, unknown fields, ids that the topology
// does not have, paths that do not go from `from` to `to`, two parents of one node in a tree.
Result<TreeSchedule> ParseForestJson(std::string_view text, std::string_view name,
                                     const fabric::Topology& topology);

}  // namespace espalier::forest
