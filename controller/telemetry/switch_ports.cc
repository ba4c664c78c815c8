#include "controller/telemetry/switch_ports.h"

#include <algorithm>

namespace espalier::telemetry {

using fabric::DirectedLink;

SwitchPorts::SwitchPorts(const fabric::Topology& topology, const std::vector<Exporter>& exporters)
    : topology_(topology) {
  for (const Exporter& exporter : exporters) {
    Ports& ports = of_.emplace_back();
    nodes_.push_back(exporter.node);
    for (const Exporter::Port& port : exporter.ports) {
      if (port.name.empty()) {
        ports.listed.emplace(port.index, port.out);
      } else {
        ports.by_name.emplace(port.name, Named{port.out, false});
      }
    }
    for (const DirectedLink out : topology.Outgoing(exporter.node)) {
      const fabric::Link& link = topology.link(out.link);
      const std::string& name = out.forward ? link.a_port : link.b_port;
      const bool is_listed = std::ranges::any_of(exporter.ports, [&](const Exporter::Port& port) {
        return !port.name.empty() && port.out == out;
      });
      if (!name.empty() && !is_listed) ports.by_name.emplace(name, Named{out, true});
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
  const std::optional<Named> named = FindName(exporter, name);
  if (!named) return;
  // A name has one number: the latest.
  std::erase_if(ports.learned, [&](const auto& known) {
    return known.second == named->out && known.first != index;
  });
  ports.learned.insert_or_assign(index, named->out);
}

std::optional<SwitchPorts::Named> SwitchPorts::FindName(std::size_t exporter,
                                                        std::string_view name) const {
  const auto& by_name = of_[exporter].by_name;
  const auto named = by_name.find(name);
  return named == by_name.end() ? std::nullopt : std::optional(named->second);
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
