#include "deploy/cli/setup/topology_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/accelerator_builders.h"
#include "common/fabric/builders.h"
#include "common/fabric/folded_clos.h"
#include "common/fabric/paths.h"
#include "common/fabric/tier_text.h"
#include "common/files/command_result.h"
#include "common/files/json_writer.h"
#include "common/files/topology_file.h"
#include "controller/offline/imports/discovered.h"
#include "controller/routing/bounds/standing_proof.h"
#include "controller/routing/fabric/bundled_clos.h"
#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/fabric/unreached_paths.h"
#include "deploy/cli/setup/discover_command.h"
#include "deploy/cli/setup/import_commands.h"
#include "deploy/cli/setup/steering_gaps.h"
#include "deploy/cli/setup/topology_difference.h"

namespace espalier::cli {
namespace {

using fabric::LinkState;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::Topology;
using fabric::TopologySpec;

// A bandwidth option. Keeps the text, so that decimals stay exact.
struct RateOption {
  std::string name;
  std::string text;
};

void AddRate(CLI::App& command, RateOption& rate, std::string name, std::string text,
             const std::string& what) {
  rate = {"--" + std::move(name), std::move(text)};
  command.add_option(rate.name, rate.text, what + ", in Gbit/s (decimal number)")
      ->type_name("GBPS")
      ->capture_default_str();
}

// A required option for the size of a fabric.
void AddCount(CLI::App& command, const std::string& name, int& count, const std::string& what) {
  command.add_option(name, count, what)->type_name("COUNT")->required();
}

Result<BitsPerSecond> ReadRate(const RateOption& option) {
  auto rate = ParseGbps(option.text);
  if (rate) return rate;
  return Fail(rate.error().code, option.name + ": " + rate.error().message);
}

// The options of one `make` command.
template <typename Options>
struct MakeRequest {
  Options options;
  RateOption host_rate;
  RateOption fabric_rate;
  RateOption nvlink_rate;
  std::string output;
};

int WriteTopology(const Result<TopologySpec>& spec, const std::string& output) {
  if (!spec) return io::ReportError(spec.error());
  return io::WriteOutput(io::FormatTopology(*spec), output);
}

// Reads the rates into their fields, then builds and writes the topology.
template <typename Options, typename Build>
int RunMake(const MakeRequest<Options>& request,
            std::initializer_list<std::pair<const RateOption*, BitsPerSecond*>> rates,
            const Options& options, Build build) {
  for (const auto& [option, field] : rates) {
    auto rate = ReadRate(*option);
    if (!rate) return io::ReportError(rate.error());
    *field = *rate;
  }
  return WriteTopology(build(options), request.output);
}

void AddOutput(CLI::App& command, std::string& output) {
  command.add_option("-o,--output", output, "File to write (default: standard output)");
}

void AddLinkRates(CLI::App& command, RateOption& hosts, RateOption& switches) {
  AddRate(command, hosts, "host-gbps", "100", "Bandwidth of a link to a host");
  AddRate(command, switches, "fabric-gbps", "100", "Bandwidth of a link between switches");
}

void AddLeafSpine(CLI::App& make, int& exit_code) {
  auto request = std::make_shared<MakeRequest<fabric::LeafSpineOptions>>();
  CLI::App* command = make.add_subcommand("leaf-spine", "Connect every leaf to every spine");
  AddCount(*command, "--spines", request->options.spines, "Number of spine switches");
  AddCount(*command, "--leaves", request->options.leaves, "Number of leaf switches");
  AddCount(*command, "--hosts-per-leaf", request->options.hosts_per_leaf,
           "Number of hosts of each leaf");
  command
      ->add_option("--uplinks", request->options.uplinks,
                   "Number of leaves to which each host is linked with one address")
      ->type_name("COUNT")
      ->capture_default_str();
  command
      ->add_option("--planes", request->options.planes,
                   "Number of planes to which uplinks and spines are dealt out")
      ->type_name("COUNT")
      ->capture_default_str();
  AddLinkRates(*command, request->host_rate, request->fabric_rate);
  AddOutput(*command, request->output);
  command->callback([request, &exit_code] {
    fabric::LeafSpineOptions options = request->options;
    exit_code = RunMake(
        *request,
        {{&request->host_rate, &options.host_rate}, {&request->fabric_rate, &options.fabric_rate}},
        options, fabric::BuildLeafSpine);
  });
}

void AddFatTree(CLI::App& make, int& exit_code) {
  auto request = std::make_shared<MakeRequest<fabric::FatTreeOptions>>();
  CLI::App* command =
      make.add_subcommand("fat-tree", "Connect three tiers of switches with k ports each");
  AddCount(*command, "--k", request->options.k, "Number of ports of a switch (even)");
  AddLinkRates(*command, request->host_rate, request->fabric_rate);
  AddOutput(*command, request->output);
  command->callback([request, &exit_code] {
    fabric::FatTreeOptions options = request->options;
    exit_code = RunMake(
        *request,
        {{&request->host_rate, &options.host_rate}, {&request->fabric_rate, &options.fabric_rate}},
        options, fabric::BuildFatTree);
  });
}

void AddRails(CLI::App& make, int& exit_code) {
  auto request = std::make_shared<MakeRequest<fabric::RailOptions>>();
  CLI::App* command =
      make.add_subcommand("rails", "Connect boxes of GPUs in rails: NIC r of each box to leaf r");
  AddCount(*command, "--boxes", request->options.boxes, "Number of boxes");
  command
      ->add_option("--rails", request->options.rails,
                   "Number of leaves, and of GPUs and NICs of each box")
      ->type_name("COUNT")
      ->capture_default_str();
  command
      ->add_option("--spines", request->options.spines,
                   "Number of spine switches (0: the rails are not connected)")
      ->type_name("COUNT")
      ->capture_default_str();
  AddRate(*command, request->host_rate, "nic-gbps", "400", "Bandwidth of a link to a NIC");
  AddRate(*command, request->fabric_rate, "fabric-gbps", "400",
          "Bandwidth of a link between switches");
  AddRate(*command, request->nvlink_rate, "nvlink-gbps", "3600",
          "Bandwidth of the link between a GPU and the switch of its box");
  AddOutput(*command, request->output);
  command->callback([request, &exit_code] {
    fabric::RailOptions options = request->options;
    exit_code = RunMake(*request,
                        {{&request->host_rate, &options.nic_rate},
                         {&request->fabric_rate, &options.fabric_rate},
                         {&request->nvlink_rate, &options.nvlink_rate}},
                        options, fabric::BuildRails);
  });
}

template <typename Options>
void AddBoxes(CLI::App& make, int& exit_code, const std::string& name, const std::string& what,
              Options options, Result<TopologySpec> (*build)(const Options&)) {
  auto request = std::make_shared<MakeRequest<Options>>();
  request->options = options;
  CLI::App* command = make.add_subcommand(name, what);
  AddCount(*command, "--boxes", request->options.boxes, "Number of boxes");
  AddOutput(*command, request->output);
  command->callback([request, build, &exit_code] {
    exit_code = WriteTopology(build(request->options), request->output);
  });
}

void AddAccelerators(CLI::App& make, int& exit_code) {
  AddBoxes<fabric::BoxOptions>(make, exit_code, "a100",
                               "Connect boxes of 8 GPUs with NVSwitch by two rails", {},
                               fabric::BuildA100);
  AddBoxes<fabric::BoxOptions>(make, exit_code, "h100",
                               "Connect boxes of 8 GPUs with NVSwitch by one switch", {},
                               fabric::BuildH100);
  AddBoxes<fabric::Mi250Options>(make, exit_code, "mi250",
                                 "Connect boxes of 16 GPUs with direct links", {.half = false},
                                 fabric::BuildMi250);
  AddBoxes<fabric::Mi250Options>(make, exit_code, "mi250-half",
                                 "Connect the first 8 GPUs of MI250 boxes", {.half = true},
                                 fabric::BuildMi250);
}

void AddRing(CLI::App& make, int& exit_code) {
  auto request = std::make_shared<MakeRequest<fabric::RingOptions>>();
  CLI::App* command = make.add_subcommand("ring", "Connect nodes in a ring");
  AddCount(*command, "--nodes", request->options.nodes, "Number of nodes");
  command->add_flag("--directed", request->options.directed, "Make links of one direction only");
  AddRate(*command, request->host_rate, "gbps", "1", "Bandwidth of a link");
  AddOutput(*command, request->output);
  command->callback([request, &exit_code] {
    fabric::RingOptions options = request->options;
    exit_code =
        RunMake(*request, {{&request->host_rate, &options.rate}}, options, fabric::BuildRing);
  });
}

struct GridOptions {
  std::vector<int> dimensions;
  BitsPerSecond rate;
};

void AddGrid(CLI::App& make, int& exit_code, const std::string& name, const std::string& what,
             const std::string& option, const std::string& meaning,
             Result<TopologySpec> (*build)(const GridOptions&)) {
  auto request = std::make_shared<MakeRequest<GridOptions>>();
  CLI::App* command = make.add_subcommand(name, what);
  command->add_option(option, request->options.dimensions, meaning)
      ->type_name("COUNT")
      ->required()
      ->delimiter('x');
  AddRate(*command, request->host_rate, "gbps", "1", "Bandwidth of a link");
  AddOutput(*command, request->output);
  command->callback([request, build, &exit_code] {
    GridOptions options = request->options;
    exit_code = RunMake(*request, {{&request->host_rate, &options.rate}}, options, build);
  });
}

Result<TopologySpec> MakeTorus(const GridOptions& options) {
  return fabric::BuildTorus(options.dimensions, options.rate);
}

Result<TopologySpec> MakeHypercube(const GridOptions& options) {
  if (options.dimensions.size() != 1) {
    return Fail(ErrorCode::kInvalidArgument, "--dimension: several numbers (write one)");
  }
  return fabric::BuildHypercube(options.dimensions.front(), options.rate);
}

// The figures of a topology that `check` prints, by their names in the JSON.
using Summary = std::vector<std::pair<std::string, std::int64_t>>;

// Counts the connected components of the nodes over the links that are not DOWN, with union-find.
std::int64_t CountParts(const Topology& topology) {
  std::vector<std::size_t> parent(topology.nodes().size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto root = [&](std::size_t node) {
    while (parent[node] != node) node = parent[node] = parent[parent[node]];
    return node;
  };
  auto parts = static_cast<std::int64_t>(parent.size());
  for (const fabric::Link& link : topology.links()) {
    const std::size_t a = root(link.a.Index());
    const std::size_t b = root(link.b.Index());
    if (link.state == LinkState::kDown || a == b) continue;
    parent[a] = b;
    --parts;
  }
  return parts;
}

Summary Summarise(const Topology& topology, const fabric::PathTable& paths) {
  const auto nodes = [&](NodeKind kind) {
    return std::ranges::count(topology.nodes(), kind, &fabric::Node::kind);
  };
  const auto links = [&](LinkState state) {
    return std::ranges::count(topology.links(), state, &fabric::Link::state);
  };
  std::int64_t endpoints = 0;
  std::int64_t unattached = 0;
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    const NodeId node(static_cast<std::int32_t>(i));
    if (!topology.IsFlowEndpoint(node)) continue;
    ++endpoints;
    if (!paths.FindAttachment(node)) ++unattached;
  }
  return {{"version", topology.version()},
          {"nodes", static_cast<std::int64_t>(topology.nodes().size())},
          {"compute", nodes(NodeKind::kCompute)},
          {"nics", nodes(NodeKind::kNic)},
          {"switches", nodes(NodeKind::kSwitch)},
          {"endpoints", endpoints},
          {"unattached_endpoints", unattached},
          {"links", static_cast<std::int64_t>(topology.links().size())},
          {"links_up", links(LinkState::kUp)},
          {"links_down", links(LinkState::kDown)},
          {"links_drained", links(LinkState::kDrained)},
          {"parts", CountParts(topology)}};
}

int Check(const std::string& file, bool json) {
  const auto topology = io::ReadTopologyFile(file);
  if (!topology) return io::ReportError(topology.error());
  fabric::PathTable paths(*topology);
  const Summary summary = Summarise(*topology, paths);
  const auto clos = fabric::RecognizeFoldedClos(*topology, paths);
  const controller::FabricView view(*topology, paths);
  const bool is_bundled = view.bundled_clos().has_value();
  const std::string tiers = is_bundled ? controller::DescribeBundles(*view.bundled_clos())
                                       : fabric::DescribeTiers(*topology, clos);
  // Of switches: NICs that choose among several leaves are below them.
  const int tier_count =
      is_bundled ? 2 : (clos ? static_cast<int>(clos->tiers) - paths.leaf_level() : 0);
  const auto unreached = controller::FindUnreachedPaths(*topology, paths);
  if (!unreached) return io::ReportError(unreached.error());
  std::vector<std::string> gaps = FindSteeringGaps(*topology, paths);
  const std::string polarised = controller::DescribeUnreached(*topology, *unreached);
  if (!polarised.empty()) gaps.push_back(polarised);
  // Theorems are about fabrics whose paths can all be taken.
  const std::string_view theorem = polarised.empty()
                                       ? controller::ProofText(controller::StandingProof(view))
                                       : std::string_view();
  if (json) {
    io::JsonWriter writer;
    writer.BeginObject().Key("file").String(file).Key("name").String(topology->name());
    for (const auto& [key, value] : summary) writer.Key(key).Integer(value);
    writer.Key("tiers").Integer(tier_count).Key("fabric").String(tiers);
    writer.Key("paths_tried").Integer(static_cast<std::int64_t>(unreached->paths));
    writer.Key("paths_unreached").Integer(static_cast<std::int64_t>(unreached->unreached));
    writer.Key("paths_unreached_via").BeginArray();
    for (const std::string& via : unreached->worst_via) writer.String(via);
    writer.EndArray();
    writer.Key("theorem").String(theorem).Key("steering_gaps").BeginArray();
    for (const std::string& gap : gaps) writer.String(gap);
    writer.EndArray().EndObject();
    fmt::print("{}\n", writer.Text());
    return 0;
  }
  fmt::print("{}: the topology is valid\n", file);
  fmt::print("  {:<21} {}\n", "name", topology->name());
  for (const auto& [key, value] : summary) {
    std::string title = key;
    std::ranges::replace(title, '_', ' ');
    fmt::print("  {:<21} {}\n", title, value);
  }
  fmt::print("  {:<21} {}\n", "fabric", tiers);
  fmt::print("  {:<21} {}\n", "theorem",
             !polarised.empty() ? "none, as no source port takes some paths"
             : theorem.empty()
                 ? "none for all flows: what `recompute` reaches depends on them"
                 : fmt::format("{}: `recompute` reaches the least maximum load", theorem));
  for (const std::string& gap : gaps) fmt::print("  {:<21} {}\n", "lacks for steering", gap);
  return 0;
}

void AddCheck(CLI::App& group, int& exit_code) {
  struct Request {
    std::string file;
    bool json = false;
  };
  auto request = std::make_shared<Request>();
  CLI::App* command = group.add_subcommand(
      "check",
      "Check a topology file, count what it holds, recognise its tiers and name what steering "
      "lacks");
  command->add_option("FILE", request->file, "Topology file")->required();
  command->add_flag("--json", request->json, "Print one JSON object instead of text");
  command->callback([request, &exit_code] { exit_code = Check(request->file, request->json); });
}

struct DiffRequest {
  std::string before;
  std::string after;
  bool by_address = false;
  bool json = false;
};

int Diff(const DiffRequest& request) {
  const auto before = io::ReadTopologyFile(request.before);
  if (!before) return io::ReportError(before.error());
  auto after = io::ReadTopologyFile(request.after);
  if (!after) return io::ReportError(after.error());
  if (request.by_address) {
    auto named = Topology::Build(imports::CompleteFrom(after->Spec(), *before));
    if (!named) return io::ReportError(named.error().error);
    *after = std::move(*named);
  }
  if (request.json) {
    io::JsonWriter writer;
    writer.BeginObject();
    WriteTopologyDifference(writer, *before, *after);
    fmt::print("{}\n", writer.EndObject().Text());
  } else {
    PrintTopologyDifference(*before, *after);
  }
  return 0;
}

void AddDiff(CLI::App& group, int& exit_code) {
  auto request = std::make_shared<DiffRequest>();
  CLI::App* command = group.add_subcommand(
      "diff", "Show how two topology files differ: nodes, links, cabling and rates");
  command->add_option("A", request->before, "Topology file before")->required();
  command->add_option("B", request->after, "Topology file after")->required();
  command->add_flag("--by-address", request->by_address,
                    "Compare cabling alone: what has the same address is the same, whatever its "
                    "name, ports and rates, as in a discovered topology");
  command->add_flag("--json", request->json, "Print one JSON object instead of text");
  command->callback([request, &exit_code] { exit_code = Diff(*request); });
}

}  // namespace

void AddTopologyCommands(CLI::App& app, int& exit_code) {
  CLI::App* group =
      app.add_subcommand("topology", "Make, import, check, compare and apply topology files");
  group->require_subcommand(1);
  CLI::App* make = group->add_subcommand("make", "Make the topology file of a regular fabric");
  make->require_subcommand(1);
  AddLeafSpine(*make, exit_code);
  AddFatTree(*make, exit_code);
  AddRails(*make, exit_code);
  AddAccelerators(*make, exit_code);
  AddRing(*make, exit_code);
  AddGrid(*make, exit_code, "torus", "Connect each node to both neighbours in every dimension",
          "--dims", "Number of nodes in each dimension, such as 8x8x16", MakeTorus);
  AddGrid(*make, exit_code, "hypercube", "Connect nodes whose numbers differ in one bit",
          "--dimension", "Dimension D of the cube, which has 2 to the power of D nodes",
          MakeHypercube);
  // After the commands, as they would take it over.
  make->footer(
      "Examples:\n"
      "  espalier topology make leaf-spine --spines 4 --leaves 4 --hosts-per-leaf 4 -o "
      "fabric.json\n"
      "  espalier topology make torus --dims 8x8x16 --gbps 100");
  AddImportCommands(*group, exit_code);
  AddDiscoverCommand(*group, exit_code);
  AddCheck(*group, exit_code);
  AddDiff(*group, exit_code);
}

}  // namespace espalier::cli
