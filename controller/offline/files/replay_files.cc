#include "controller/offline/files/replay_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <iterator>
#include <vector>

namespace espalier::offline {
namespace {

using fabric::DirectedLink;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::Topology;

Result<void> CheckBytes(const FlowSet& flows, std::string_view flow_file) {
  for (const FlowRecord& flow : flows.flows) {
    if (flow.bytes) continue;
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: flow \"{}\" has no bytes (a replay needs the column bytes of every "
                    "flow)",
                    flow_file, flow.id));
  }
  return {};
}

// The numbers of the nodes that are linked to a switch outside their host, by NodeId; -1: none.
std::vector<std::int32_t> NumberEnds(const Topology& topology, std::int32_t& count) {
  std::vector<bool> is_end(topology.nodes().size());
  for (const fabric::Link& link : topology.links()) {
    const bool a_is_switch = topology.node(link.a).kind == NodeKind::kSwitch;
    const bool b_is_switch = topology.node(link.b).kind == NodeKind::kSwitch;
    if (a_is_switch == b_is_switch) continue;
    const NodeId end = a_is_switch ? link.b : link.a;
    const NodeId other = a_is_switch ? link.a : link.b;
    const std::string& host = topology.node(other).host;
    if (host.empty() || host != topology.node(end).host) is_end[end.Index()] = true;
  }
  std::vector<std::int32_t> numbers(is_end.size(), -1);
  count = 0;
  for (std::size_t node = 0; node < is_end.size(); ++node) {
    if (is_end[node]) numbers[node] = count++;
  }
  return numbers;
}

// The switches of a path, from the source's to the destination's, or of a flow within one switch.
std::string SwitchesOf(const AssignedPath& path, const Topology& topology) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i + 1 < path.links.size(); ++i) {
    names.push_back(topology.node(topology.To(DirectedLink::FromIndex(path.links[i]))).id);
  }
  return fmt::format("{}", fmt::join(names, "/"));
}

std::string LinksOf(const AssignedPath& path, const Topology& topology) {
  std::vector<std::string> names;
  for (const std::uint32_t link : path.links) {
    names.push_back(topology.DirectionName(DirectedLink::FromIndex(link)));
  }
  return fmt::format("{}", fmt::join(names, "/"));
}

}  // namespace

Result<std::string> FormatHtsim(const AssignmentResult& plan, const FlowSet& flows,
                                const Topology& topology, std::string_view flow_file) {
  if (const Result<void> known = CheckBytes(flows, flow_file); !known) {
    return tl::unexpected<Error>(known.error());
  }
  std::int32_t nodes = 0;
  const std::vector<std::int32_t> numbers = NumberEnds(topology, nodes);
  const std::size_t lost = static_cast<std::size_t>(plan.Count(AssignmentState::kUnroutable));
  std::string text = fmt::format("Nodes {}\nConnections {}\n", nodes, plan.flows.size() - lost);
  for (std::size_t i = 0; i < plan.flows.size(); ++i) {
    if (plan.flows[i].state == AssignmentState::kUnroutable) continue;
    const FlowRecord& flow = flows.flows[i];
    fmt::format_to(std::back_inserter(text), "{}->{} id {} start 0 size {}\n",
                   numbers[flow.source.Index()], numbers[flow.destination.Index()], i + 1,
                   *flow.bytes);
  }
  return text;
}

std::string FormatPathTable(const AssignmentResult& plan, const FlowSet& flows,
                            const Topology& topology) {
  std::string text = "connection,flow,from_seconds,path,weight,switches\n";
  for (std::size_t i = 0; i < plan.flows.size(); ++i) {
    const AssignedFlow& flow = plan.flows[i];
    for (std::size_t path = 0; path < flow.paths.size(); ++path) {
      fmt::format_to(std::back_inserter(text), "{},{},0,{},{},{}\n", i + 1, flows.flows[i].id, path,
                     flow.paths[path].subflows, SwitchesOf(flow.paths[path], topology));
    }
  }
  return text;
}

Result<std::string> FormatNs3(const AssignmentResult& plan, const FlowSet& flows,
                              const Topology& topology, std::string_view flow_file) {
  if (const Result<void> known = CheckBytes(flows, flow_file); !known) {
    return tl::unexpected<Error>(known.error());
  }
  std::string text = "flow,job,source,destination,start_seconds,bytes,path,links\n";
  for (std::size_t i = 0; i < plan.flows.size(); ++i) {
    const AssignedFlow& flow = plan.flows[i];
    const FlowRecord& record = flows.flows[i];
    const auto add = [&](std::int64_t bytes, std::size_t path, const std::string& links) {
      fmt::format_to(std::back_inserter(text), "{},{},{},{},0,{},{},{}\n", record.id,
                     flows.jobs[record.job], topology.node(record.source).id,
                     topology.node(record.destination).id, bytes, path, links);
    };
    if (flow.state == AssignmentState::kLocal) add(*record.bytes, 0, "");
    std::int64_t dealt = 0;
    std::uint32_t subflows = 0;
    for (std::size_t path = 0; path < flow.paths.size(); ++path) {
      subflows += flow.paths[path].subflows;
      // In whole parts first: the product may not fit into 64 bits.
      const std::int64_t until = *record.bytes / flow.subflows * subflows +
                                 *record.bytes % flow.subflows * subflows / flow.subflows;
      add(until - dealt, path, LinksOf(flow.paths[path], topology));
      dealt = until;
    }
  }
  return text;
}

}  // namespace espalier::offline
