#include "deploy/demo/spine_check.h"

#include <algorithm>
#include <sstream>

#include "common/files/json.h"

namespace espalier::demo {
namespace {

// Reads the switches to which the controller assigned each port, from what it pushed.
Result<std::map<PortTriple, std::set<std::string>>> ReadAssignedSpines(const LabDaemons& daemons) {
  Result<io::JsonValue> answer = daemons.Get("/api/v1/plans");
  if (!answer) return Propagate(answer);
  std::map<PortTriple, std::set<std::string>> assigned;
  for (const io::JsonValue& path : answer->Find("plans")->items) {
    const auto port = static_cast<std::uint16_t>(std::stoi(path.Find("source_port")->text));
    std::istringstream via(path.Find("via")->text);  // "spine0" or "agg0,core1,agg2"
    auto& switches = assigned[{path.Find("source")->text, path.Find("destination")->text, port}];
    for (std::string name; std::getline(via, name, ',');) switches.insert(name);
  }
  return assigned;
}

}  // namespace

std::map<PortTriple, std::set<std::string>> SpinesOf(const lab::Lab& lab,
                                                     std::span<const lab::FlowCount> counts) {
  const auto name = [&](const IpAddress& address) {
    const auto nic = lab.topology().FindNic(address);
    return nic ? lab.topology().node(*nic).id : address.ToString();
  };
  std::map<PortTriple, std::set<std::string>> spines;
  for (const lab::FlowCount& count : counts) {
    if (count.packets == 0) continue;
    spines[{name(count.source), name(count.destination), count.source_port}].insert(count.spine);
  }
  return spines;
}

Result<SpineCheck> CheckSpines(const lab::Lab& lab, const lab::TrafficResult& result,
                               std::span<const lab::FlowCount> counts, const LabDaemons& daemons) {
  auto assigned = ReadAssignedSpines(daemons);
  if (!assigned) return Propagate(assigned);
  SpineCheck check;
  const auto seen = SpinesOf(lab, counts);
  for (const lab::FlowOutcome& flow : result.flows) {
    for (const traffic::PortUse& use : flow.sent.ports) {
      if (!use.steered || use.bytes == 0) continue;
      ++check.steered_flows;
      const PortTriple triple{flow.plan.source, flow.plan.destination, use.port};
      const auto spines = seen.find(triple);
      const auto& expected = (*assigned)[triple];
      const bool as_assigned =
          spines != seen.end() && std::includes(expected.begin(), expected.end(),
                                                spines->second.begin(), spines->second.end());
      if (as_assigned) continue;
      ++check.mismatches;
      const auto is_wrong_core = [&](const std::string& name) {
        return name.starts_with("core") && !expected.contains(name);
      };
      if (spines != seen.end() && std::ranges::any_of(spines->second, is_wrong_core)) {
        ++check.core_mismatches;
      }
    }
  }
  return check;
}

}  // namespace espalier::demo
