#include "deploy/cli/schedule/demand_file.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "common/files/json.h"
#include "common/files/json_fields.h"

namespace espalier::synthesis {

Result<Demand> ParseDemand(std::string_view text, std::string_view name,
                           const fabric::Topology& topology) {
  const auto document = io::ParseJson(text, name);
  if (!document) return tl::unexpected<Error>(document.error());
  const std::size_t count = topology.nodes().size();
  Demand demand(count * count, 0);
  io::JsonFields sources(*document, name);
  if (document->kind == io::JsonValue::Kind::kObject) {
    for (const auto& member : document->members) {
      const std::string& id = member.first;
      const auto source = topology.FindNode(id);
      if (!source) {
        sources.AddError(id, fmt::format("the topology has no node \"{}\"", id));
        break;
      }
      const io::JsonValue* const row = sources.Object(id);
      if (row == nullptr) break;
      io::JsonFields destinations(*row, name);
      for (const auto& entry : row->members) {
        const auto destination = topology.FindNode(entry.first);
        if (!destination) {
          destinations.AddError(entry.first,
                                fmt::format("the topology has no node \"{}\"", entry.first));
          break;
        }
        demand[source->Index() * count + destination->Index()] =
            destinations.Integer(entry.first, 0, 0, *destination == *source ? 0 : kMaxDemand);
      }
      if (auto done = destinations.Finish(); !done) return Propagate(done);
    }
  }
  if (auto done = sources.Finish(); !done) return Propagate(done);
  return demand;
}

}  // namespace espalier::synthesis
