#include "controller/telemetry/switch_ports.h"

#include <algorithm>

namespace espalier::telemetry {

using fabric::DirectedLink;

SwitchPorts::SwitchPorts(const fabric::Topology& topology, const std::vector<Exporter>& exporters)
    : topology_(topology) {
  for (const Exporter& exporter : exporters) {
    Ports& ports = of_.emplace_back();
    nodes_.push_back(exporter.node);
    for (const Exporter::Port& port : exporter.ports) ports.listed.emplace(port.index, port.out);
    for (const DirectedLink out : topology.Outgoing(exporter.node)) {
      const fabric::Link& link = topology.link(out.link);
      const std::string& name = out.forward ? link.a_port : link.b_port;
      if (!name.empty()) ports.by_name.emplace(name, out);
    }
  }
}

std::optional<DirectedLink> SwitchPorts::Out(std::size_t exporter, std::uint32_t index) const {
  const Ports& ports = of_[exporter];
  for (const auto* known : {&ports.listed, &ports.learned}) {
    const auto found = known->find(index);
    if (found != known->end()) return found->second;
  }
  return std::nullopt;
}

void SwitchPorts::HandleName(std::size_t exporter, std::uint32_t index, std::string_view name) {
  Ports& ports = of_[exporter];
  const auto named = ports.by_name.find(name);
  if (named == ports.by_name.end()) return;
  // A name has one number: the latest.
  std::erase_if(ports.learned, [&](const auto& known) {
    return known.second == named->second && known.first != index;
  });
  ports.learned.insert_or_assign(index, named->second);
}

std::vector<std::string> SwitchPorts::Unknown(std::size_t exporter) const {
  const Ports& ports = of_[exporter];
  std::vector<std::string> unknown;
  for (const DirectedLink out : topology_.Outgoing(nodes_[exporter])) {
    const auto has = [&](const auto& known) {
      return std::ranges::any_of(known, [&](const auto& port) { return port.second == out; });
    };
    if (!has(ports.listed) && !has(ports.learned)) unknown.push_back(topology_.DirectionName(out));
  }
  return unknown;
}

}  // namespace espalier::telemetry
