#include "deploy/cli/setup/topology_difference.h"

#include <fmt/format.h>

#include "common/fabric/topology_diff.h"
#include "common/terminal/table.h"

namespace espalier::cli {

void WriteTopologyDifference(io::JsonWriter& json, const fabric::Topology& before,
                             const fabric::Topology& after) {
  json.Key("changes").BeginArray();
  for (const auto& change : fabric::DiffTopologies(before, after, /*with_states=*/true)) {
    json.BeginObject();
    json.Key("what").String(change.is_link ? "link" : "node");
    json.Key("change").String(fabric::TopologyChangeName(change.kind));
    json.Key("id").String(change.id);
    json.Key("detail").String(change.detail);
    json.EndObject();
  }
  json.EndArray();
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
