#include "deploy/cli/job/job_advise.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/order/rank_order.h"
#include "common/fabric/folded_clos.h"
#include "common/fabric/paths.h"
#include "common/files/command_result.h"
#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/files/topology_file.h"

namespace espalier::order {
namespace {

using fabric::Node;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::Topology;

constexpr std::size_t kMaxRanks = 4096;

struct Request {
  std::string file;
  std::string topology;
  std::string algorithm = "allreduce-ring-chunked";
  int ranks_per_node = 0;
  std::uint64_t bytes = 0;
  bool json = false;
};

Result<std::vector<std::string>> ReadRanks(const std::string& file) {
  const auto text = io::ReadFile(file);
  if (!text) return tl::unexpected<Error>(text.error());
  const auto json = io::ParseJson(*text, file);
  if (!json) return tl::unexpected<Error>(json.error());
  std::vector<std::string> ranks;
  std::set<std::string> known;
  for (const io::JsonValue& item : json->items) {
    const auto fail = [&](const char* what) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}:{}:{}: {}", file, item.line, item.column, what));
    };
    if (item.kind != io::JsonValue::Kind::kString) return fail("not the name of a node");
    if (!known.insert(item.text).second) return fail("this node is listed twice");
    ranks.push_back(item.text);
  }
  if (ranks.size() >= 2 && ranks.size() <= kMaxRanks) return ranks;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: 2 to {} ranks are needed (write a JSON array of nodes, by rank)",
                          file, kMaxRanks));
}

// The NIC of a node: itself, or the one with its number in its host.
std::optional<NodeId> FindNic(const Topology& topology, const fabric::PathTable& paths,
                              NodeId node) {
  if (paths.FindAttachment(node)) return node;
  std::vector<NodeId> nics;
  std::vector<NodeId> peers;
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    const NodeId other(static_cast<std::int32_t>(i));
    if (fabric::HostOf(topology.node(other)) != fabric::HostOf(topology.node(node))) continue;
    if (paths.FindAttachment(other)) nics.push_back(other);
    if (topology.node(other).kind == NodeKind::kCompute) peers.push_back(other);
  }
  if (nics.size() == 1) return nics.front();
  const auto place = std::ranges::find(peers, node) - peers.begin();
  if (nics.size() != peers.size() || place == std::ssize(peers)) return std::nullopt;
  return nics[static_cast<std::size_t>(place)];
}

// Numbers groups by their names.
void AddLevel(const std::string& name, const std::vector<std::string>& groups,
              std::vector<Level>& levels) {
  std::map<std::string, int> numbers;
  Level level{name, {}};
  for (const std::string& group : groups) {
    level.group_of.push_back(
        numbers.try_emplace(group, static_cast<int>(numbers.size())).first->second);
  }
  if (numbers.size() > 1) levels.push_back(std::move(level));
}

Result<std::vector<Level>> FindLevels(const Topology& topology,
                                      const std::vector<std::string>& ranks) {
  const fabric::PathTable paths(topology);
  std::vector<NodeId> leaves;
  std::vector<std::string> hosts;
  std::vector<std::string> names;
  for (const std::string& rank : ranks) {
    const auto node = topology.FindNode(rank);
    const auto nic = node ? FindNic(topology, paths, *node) : std::nullopt;
    if (!nic) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {} (name COMPUTE or NIC nodes of the topology)", rank,
                              node ? "its NIC is not clear" : "there is no such node"));
    }
    leaves.push_back(paths.FindAttachment(*nic)->leaf);
    hosts.push_back(fabric::HostOf(topology.node(*node)));
    names.push_back(topology.node(leaves.back()).id);
  }
  std::vector<Level> levels;
  AddLevel("host", hosts, levels);
  AddLevel("leaf", names, levels);
  const auto clos = fabric::RecognizeFoldedClos(topology, paths);
  for (std::uint32_t tier = 1; clos && tier < clos->tiers; ++tier) {
    std::vector<std::string> blocks;
    for (const NodeId leaf : leaves) {
      blocks.push_back(std::to_string(
          clos->Ancestor(static_cast<std::uint32_t>(clos->leaf_of[leaf.Index()]), tier)));
    }
    AddLevel(tier == 1 ? "pod" : fmt::format("block of {} tiers", tier + 1), blocks, levels);
  }
  return levels;
}

double BytesOf(const RankTraffic& traffic, std::int64_t chunks, std::uint64_t bytes) {
  return static_cast<double>(chunks) / static_cast<double>(traffic.all_chunks) *
         static_cast<double>(bytes);
}

void PrintText(const Request& request, const RankTraffic& traffic, const std::vector<Level>& levels,
               const OrderAdvice& advice, const std::vector<std::string>& ranks) {
  fmt::print("{} of {} ranks, {} bytes: bytes that leave a group\n", request.algorithm,
             traffic.ranks, request.bytes);
  fmt::print("{:<20} {:>8} {:>16} {:>16} {:>16}\n", "level", "groups", "this order", "best found",
             "least possible");
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const auto& groups = levels[i].group_of;
    fmt::print("{:<20} {:>8} {:>16.0f} {:>16.0f} {:>16.0f}\n", levels[i].name,
               *std::ranges::max_element(groups) + 1,
               BytesOf(traffic, advice.present[i], request.bytes),
               BytesOf(traffic, advice.best[i], request.bytes),
               BytesOf(traffic, advice.least[i], request.bytes));
  }
  if (levels.empty()) fmt::print("all ranks are on one host, so their order does not matter\n");
  const bool is_best = advice.best == advice.present;
  fmt::print(
      "{}{}\n", is_best ? "keep this order" : "better order:",
      advice.is_optimal ? " (proved to be optimal)" : " (whether it is optimal is not known)");
  if (is_best) return;
  for (const int place : advice.place_of) {
    fmt::print("  {}\n", ranks[static_cast<std::size_t>(place)]);
  }
}

void PrintJson(const Request& request, const RankTraffic& traffic, const std::vector<Level>& levels,
               const OrderAdvice& advice, const std::vector<std::string>& ranks) {
  io::JsonWriter writer;
  writer.BeginObject().Key("algorithm").String(request.algorithm);
  writer.Key("ranks").Integer(traffic.ranks);
  writer.Key("bytes").Integer(static_cast<std::int64_t>(request.bytes));
  writer.Key("optimal").Bool(advice.is_optimal).Key("levels").BeginArray();
  for (std::size_t i = 0; i < levels.size(); ++i) {
    writer.BeginObject().Key("level").String(levels[i].name);
    writer.Key("groups").Integer(*std::ranges::max_element(levels[i].group_of) + 1);
    writer.Key("present_bytes").Double(BytesOf(traffic, advice.present[i], request.bytes));
    writer.Key("best_bytes").Double(BytesOf(traffic, advice.best[i], request.bytes));
    writer.Key("least_bytes").Double(BytesOf(traffic, advice.least[i], request.bytes)).EndObject();
  }
  writer.EndArray().Key("order").BeginArray();
  for (const int place : advice.place_of) writer.String(ranks[static_cast<std::size_t>(place)]);
  writer.EndArray().EndObject();
  fmt::print("{}\n", writer.Text());
}

int Run(const Request& request) {
  const auto bad = [](const Error& error) { return io::ReportError(error, io::kExitBadInput); };
  const auto ranks = ReadRanks(request.file);
  if (!ranks) return bad(ranks.error());
  const auto topology = io::ReadTopologyFile(request.topology);
  if (!topology) return bad(topology.error());
  const auto levels = FindLevels(*topology, *ranks);
  if (!levels) return bad({levels.error().code, request.file + ": " + levels.error().message});
  const auto program = algorithms::MakeAlgorithm(
      request.algorithm, {.ranks = static_cast<int>(ranks->size()),
                          .ranks_per_node = request.ranks_per_node,
                          .pieces = 1});  // they do not change who sends how much
  if (!program) return bad(program.error());
  const RankTraffic traffic = MeasureTraffic(*program);
  const OrderAdvice advice = AdviseOrder(traffic, *levels);
  (request.json ? PrintJson : PrintText)(request, traffic, *levels, advice, *ranks);
  return 0;
}

}  // namespace

void AddJobAdvise(CLI::App& jobs, int& exit_code) {
  auto request = std::make_shared<Request>();
  CLI::App* command = jobs.add_subcommand(
      "advise", "Find the order of a job's ranks that keeps most bytes in hosts, leaves and pods");
  command->add_option("FILE", request->file, "JSON file with an array of nodes, by rank")
      ->required();
  command->add_option("--topology", request->topology, "Topology file of the fabric")->required();
  command
      ->add_option("--algorithm", request->algorithm,
                   "Algorithm of the job's collective (`espalier program make --help` lists them)")
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_option("--ranks-per-node", request->ranks_per_node,
                   "Number of ranks of each node of a hierarchical algorithm (default: 0, all)")
      ->type_name("COUNT")
      ->check(CLI::NonNegativeNumber);
  request->bytes = 1 << 30;
  command
      ->add_option("--bytes", request->bytes,
                   "Size of a call's data, in bytes or with a suffix K, M or G (powers of 1,024)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_flag("--json", request->json, "Print one JSON object on standard output");
  command->callback([request, &exit_code] { exit_code = Run(*request); });
}

}  // namespace espalier::order
