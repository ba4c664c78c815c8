#include "controller/offline/files/replay_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "common/files/csv.h"

namespace espalier::offline {
namespace {

using fabric::DirectedLink;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::Topology;

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
std::string SwitchesOf(const ReplayFlow::Path& path, const Topology& topology) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i + 1 < path.links.size(); ++i) {
    names.push_back(topology.node(topology.To(DirectedLink::FromIndex(path.links[i]))).id);
  }
  return fmt::format("{}", fmt::join(names, "/"));
}

std::string LinksOf(const ReplayFlow::Path& path, const Topology& topology) {
  std::vector<std::string> names;
  for (const std::uint32_t link : path.links) {
    names.push_back(topology.DirectionName(DirectedLink::FromIndex(link)));
  }
  return fmt::format("{}", fmt::join(names, "/"));
}

// "0", "0.000001": exact to the nanosecond.
std::string SecondsText(std::int64_t nanoseconds) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::string text = fmt::format("{}.{:09}", nanoseconds / kSecond, nanoseconds % kSecond);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::vector<ReplayFlow::Path> PathsOf(std::span<const PathShare> shares, const SimulatedFlow& flow,
                                      std::int64_t from_ns) {
  std::vector<ReplayFlow::Path> paths;
  double least = 1;
  for (const PathShare& share : shares) least = std::min(least, share.share);
  for (const PathShare& share : shares) {
    ReplayFlow::Path& path = paths.emplace_back();
    path.from_ns = from_ns;
    path.weight = static_cast<std::uint32_t>(std::lround(share.share / least));
    flow.AppendLinks(share.links, path.links);
  }
  return paths;
}

}  // namespace

Result<std::vector<ReplayFlow>> ReplayOf(const AssignmentResult& plan, const FlowSet& flows,
                                         std::string_view flow_file) {
  std::vector<ReplayFlow> replay;
  for (std::size_t i = 0; i < plan.flows.size(); ++i) {
    const FlowRecord& record = flows.flows[i];
    if (!record.bytes) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("{}: flow \"{}\" has no bytes (a replay needs the column bytes of every "
                      "flow)",
                      flow_file, record.id));
    }
    if (plan.flows[i].state == AssignmentState::kUnroutable) continue;
    ReplayFlow& flow = replay.emplace_back();
    flow.number = i + 1;
    flow.id = record.id;
    flow.job = flows.jobs[record.job];
    flow.source = record.source;
    flow.destination = record.destination;
    flow.bytes = *record.bytes;
    std::int64_t common = 0;
    for (const AssignedPath& path : plan.flows[i].paths) common = std::gcd(common, path.share);
    for (const AssignedPath& path : plan.flows[i].paths) {
      flow.paths.push_back(
          {.links = path.links, .weight = static_cast<std::uint32_t>(path.share / common)});
    }
  }
  return replay;
}

void ReplayRecorder::Record(const SendingFlow& sending) {
  const SimulatedFlow& connection = workload_.flows()[sending.flow];
  Last& last = last_[sending.flow];
  if (sending.bytes > 0) {
    has_overflowed_ = has_overflowed_ || flows_.size() == kMostFlows;
    if (has_overflowed_) return;
    last.flow = flows_.size();
    const Topology& topology = workload_.topology();
    ReplayFlow& flow = flows_.emplace_back();
    flow.number = flows_.size();
    flow.job = workload_.jobs()[connection.job].id;
    flow.id = fmt::format("{}:{}>{}:{}", flow.job, topology.node(connection.source).id,
                          topology.node(connection.destination).id, ++last.rounds);
    flow.source = connection.source;
    flow.destination = connection.destination;
    flow.start_ns = sending.time_ns;
    flow.bytes = sending.bytes;
  }
  if (has_overflowed_) return;
  const auto is_within_a_switch = [](const PathShare& path) { return path.links.empty(); };
  if (std::ranges::all_of(sending.paths, is_within_a_switch)) return;
  std::ranges::move(PathsOf(sending.paths, connection, sending.time_ns),
                    std::back_inserter(flows_[last.flow].paths));
}

Result<std::vector<ReplayFlow>> ReplayRecorder::Take() {
  if (!has_overflowed_) return std::move(flows_);
  return Fail(ErrorCode::kResourceExhausted,
              fmt::format("the simulation sends more than {} messages, too many for a replay "
                          "(simulate fewer epochs or jobs)",
                          kMostFlows));
}

std::string FormatHtsim(std::span<const ReplayFlow> flows, const Topology& topology) {
  constexpr std::int64_t kPicosecondsOfNanosecond = 1'000;
  std::int32_t nodes = 0;
  const std::vector<std::int32_t> numbers = NumberEnds(topology, nodes);
  std::string text = fmt::format("Nodes {}\nConnections {}\n", nodes, flows.size());
  for (const ReplayFlow& flow : flows) {
    fmt::format_to(std::back_inserter(text), "{}->{} id {} start {} size {}\n",
                   numbers[flow.source.Index()], numbers[flow.destination.Index()], flow.number,
                   flow.start_ns * kPicosecondsOfNanosecond, flow.bytes);
  }
  return text;
}

std::string FormatPathTable(std::span<const ReplayFlow> flows, const Topology& topology) {
  std::string text = "connection,flow,from_seconds,path,weight,switches\n";
  for (const ReplayFlow& flow : flows) {
    std::size_t number = 0;
    for (std::size_t i = 0; i < flow.paths.size(); ++i) {
      const ReplayFlow::Path& path = flow.paths[i];
      number = i > 0 && flow.paths[i - 1].from_ns == path.from_ns ? number + 1 : 0;
      fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{}\n", flow.number,
                     io::CsvField(flow.id), SecondsText(path.from_ns), number, path.weight,
                     SwitchesOf(path, topology));
    }
  }
  return text;
}

std::string FormatNs3(std::span<const ReplayFlow> flows, const Topology& topology) {
  std::string text = "flow,job,source,destination,start_seconds,bytes,path,links\n";
  for (const ReplayFlow& flow : flows) {
    const auto add = [&](std::int64_t bytes, std::size_t path, const std::string& links) {
      fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{}\n", io::CsvField(flow.id),
                     io::CsvField(flow.job), topology.node(flow.source).id,
                     topology.node(flow.destination).id, SecondsText(flow.start_ns), bytes, path,
                     links);
    };
    if (flow.paths.empty()) add(flow.bytes, 0, "");
    const auto first = std::span(flow.paths)
                           .first(static_cast<std::size_t>(std::ranges::count(
                               flow.paths, flow.start_ns, &ReplayFlow::Path::from_ns)));
    std::int64_t all = 0;
    for (const ReplayFlow::Path& path : first) all += path.weight;
    std::int64_t dealt = 0;
    std::int64_t weight = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      weight += first[i].weight;
      // In whole parts first: the product may not fit into 64 bits.
      const std::int64_t until = flow.bytes / all * weight + flow.bytes % all * weight / all;
      add(until - dealt, i, LinksOf(first[i], topology));
      dealt = until;
    }
  }
  return text;
}

}  // namespace espalier::offline
