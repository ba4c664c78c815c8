#include "deploy/cli/setup/topology_difference.h"

#include <fmt/format.h>

#include "common/fabric/topology_diff.h"
#include "common/files/topology_file.h"
#include "common/terminal/table.h"

namespace espalier::cli {

void WriteTopologyDifference(io::JsonWriter& json, const fabric::Topology& before,
                             const fabric::Topology& after) {
  io::WriteTopologyChanges(json, fabric::DiffTopologies(before, after, /*with_states=*/true));
}

void PrintTopologyDifference(const fabric::Topology& before, const fabric::Topology& after) {
  io::JsonWriter json;
  json.BeginObject();
  WriteTopologyDifference(json, before, after);
  json.EndObject();
  const auto difference = io::ParseJson(json.Text(), "difference");
  const auto& changes = difference->Find("changes")->items;
  if (changes.empty()) {
    fmt::print("the topologies have the same nodes and links\n");
    return;
  }
  PrintTable({{"WHAT", "what"}, {"CHANGE", "change"}, {"ID", "id"}, {"DETAIL", "detail"}}, changes);
}

}  // namespace espalier::cli
