#include "deploy/cli/schedule/network_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collective/synthesis/finder.h"
#include "common/base/units.h"
#include "common/files/command_result.h"
#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/files/topology_file.h"
#include "common/terminal/table.h"

namespace espalier::synthesis {
namespace {

using forest::Rational;

struct MakeRequest {
  Construction construction;
  std::vector<std::int64_t> numbers;  // by option
  std::vector<std::int64_t> offsets;
  std::string text;
  std::string gbps = "1";
  std::string output;
};

int WriteTopology(const Construction& construction, const MakeRequest& request) {
  const auto rate = ParseGbps(request.gbps);
  if (!rate) return io::ReportError({rate.error().code, "--gbps: " + rate.error().message});
  const auto network = BuildNetwork(construction);
  if (!network) return io::ReportError(network.error(), io::kExitBadInput);
  return io::WriteOutput(
      io::FormatTopology(WriteNetwork(FormatConstruction(construction), network->graph, *rate)),
      request.output);
}

void AddOutput(CLI::App& command, MakeRequest& request) {
  command.add_option("--gbps", request.gbps, "Bandwidth of a link, in Gbit/s (decimal number)")
      ->type_name("GBPS")
      ->capture_default_str();
  command.add_option("-o,--output", request.output, "File to write (default: standard output)");
}

// A family whose parameters are options.
struct Family {
  Form form;
  const char* name;
  const char* help;
  std::vector<std::pair<const char*, const char*>> options;  // name and help, in the form's order
};

void AddFamily(CLI::App& make, const Family& family, int& exit_code) {
  auto request = std::make_shared<MakeRequest>();
  request->construction.form = family.form;
  request->numbers.resize(family.options.size());
  CLI::App* command = make.add_subcommand(family.name, family.help);
  command->footer("");  // not that of `make`
  for (std::size_t i = 0; i < family.options.size(); ++i) {
    command->add_option(family.options[i].first, request->numbers[i], family.options[i].second)
        ->type_name("COUNT")
        ->required()
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{kMaxNodes}));
  }
  if (family.form == Form::kCirculant) {
    command
        ->add_option("--offsets", request->offsets,
                     "Distances of neighbours, such as 3,4 (default: the two with the least "
                     "diameter)")
        ->type_name("COUNT")
        ->delimiter(',');
  }
  AddOutput(*command, *request);
  command->callback([request, &exit_code] {
    Construction construction = request->construction;
    construction.numbers = request->numbers;
    construction.numbers.insert(construction.numbers.end(), request->offsets.begin(),
                                request->offsets.end());
    exit_code = WriteTopology(construction, *request);
  });
}

void AddFamilies(CLI::App& make, int& exit_code) {
  const std::vector<Family> families{
      {Form::kComplete,
       "complete",
       "Connect each node to all others",
       {{"--nodes", "Number of nodes"}}},
      {Form::kBipartite,
       "bipartite",
       "Connect each node of one half to all of the other half",
       {{"--degree", "Number of nodes of each half"}}},
      {Form::kCirculant,
       "circulant",
       "Connect nodes at given distances on a ring, both ways",
       {{"--nodes", "Number of nodes"}}},
      {Form::kDirectedCirculant,
       "directed-circulant",
       "Connect each of D + 2 nodes to the D that follow it on a ring, one way",
       {{"--degree", "Number D of links of a node"}}},
      {Form::kGeneralizedKautz,
       "generalized-kautz",
       "Connect any number of nodes by one-way links with nearly the least diameter",
       {{"--degree", "Number of links of a node"}, {"--nodes", "Number of nodes"}}},
      {Form::kDeBruijn,
       "de-bruijn",
       "Connect words that overlap in all letters but one, one way",
       {{"--degree", "Number of letters"}, {"--length", "Length of a word"}}},
      {Form::kKautz,
       "kautz",
       "Connect nodes by one-way links with the least diameter: a line graph of a complete one",
       {{"--degree", "Number of links of a node"}, {"--length", "Number of line graphs in turn"}}},
      {Form::kHamming,
       "hamming",
       "Connect nodes whose coordinates differ in one place",
       {{"--dimension", "Number of coordinates"}, {"--size", "Number of values of a coordinate"}}},
      {Form::kDistanceRegular,
       "distance-regular",
       "Connect nodes as a known distance-regular graph of degree 4",
       {{"--nodes",
         "Number of nodes: 6, 9, 10, 14, 15, 16, 21, 26, 32, 35, 45, 70, 80, 189 or "
         "728"}}},
  };
  for (const Family& family : families) AddFamily(make, family, exit_code);
}

void AddDirect(CLI::App& make, int& exit_code) {
  auto request = std::make_shared<MakeRequest>();
  CLI::App* command = make.add_subcommand(
      "direct", "Connect nodes by a construction of families and expansions, as listed below");
  command
      ->add_option("CONSTRUCTION", request->text,
                   "Construction, such as \"Line(Circulant(16, 3, 4), 3)\"")
      ->required();
  AddOutput(*command, *request);
  command->footer("Constructions:\n" + ListForms() + ".");
  command->callback([request, &exit_code] {
    const auto construction = ParseConstruction(request->text);
    exit_code = construction ? WriteTopology(*construction, *request)
                             : io::ReportError(construction.error());
  });
}

struct FindRequest {
  FinderOptions options;
  std::string collective = "allgather";
  double alpha_seconds = 10e-6;
  double bytes = 0;
  double gbps = 100;
  std::string cables;
  bool json = false;
};

double Seconds(const FindRequest& request, std::int64_t steps, const Rational& t_b) {
  return request.alpha_seconds * static_cast<double>(steps) +
         t_b.ToDouble() * request.bytes * 8 / (request.gbps * 1e9);
}

// The cables of a network: a cable is a link in both directions and takes one port of each node; a
// link in one direction is a fibre from a sending port to a receiving port.
std::string ListCables(const Digraph& graph) {
  const fabric::TopologySpec spec = WriteNetwork("", graph, BitsPerSecond{1});
  std::vector<int> sending(spec.nodes.size(), 0);
  std::vector<int> receiving(spec.nodes.size(), 0);
  std::string text = "from,from_port,to,to_port,directions\n";
  for (const bool directed : {false, true}) {
    for (const fabric::Link& link : spec.links) {
      if (link.directed != directed) continue;
      const int from = sending[link.a.Index()]++;
      const int to = receiving[link.b.Index()]++;
      if (!directed) {
        ++receiving[link.a.Index()];
        ++sending[link.b.Index()];
      }
      text += fmt::format("{},{},{},{},{}\n", spec.nodes[link.a.Index()].id, from,
                          spec.nodes[link.b.Index()].id, to, directed ? 1 : 2);
    }
  }
  return text;
}

io::JsonValue FrontRow(const std::string& name, std::int64_t steps, const Rational& t_b,
                       bool is_exact, double seconds, const std::string& construction) {
  return cli::MakeRow({{"network", name},
                       {"t_l", std::to_string(steps)},
                       {"t_b", (is_exact ? "" : "<= ") + t_b.ToString()},
                       {"t_b_decimal", fmt::format("{:.4f}", t_b.ToDouble())},
                       {"time", fmt::format("{:.1f} us", seconds * 1e6)},
                       {"construction", construction}});
}

int PrintFront(const FindRequest& request, const std::vector<Candidate>& front) {
  const Bounds bounds = ComputeBounds(request.options);
  io::JsonWriter writer;
  std::vector<io::JsonValue> rows;
  writer.BeginArray();
  const auto add = [&](const std::string& name, const std::string& construction, std::int64_t steps,
                       const Rational& t_b, bool is_exact) {
    const double seconds = Seconds(request, steps, t_b);
    writer.BeginObject().Key("name").String(name).Key("construction").String(construction);
    writer.Key("t_l").String(std::to_string(steps)).Key("t_b").String(t_b.ToString());
    writer.Key("t_b_is_exact").Bool(is_exact).Key("seconds").Double(seconds);
    writer.Key("moore_t_l").String(std::to_string(bounds.steps));
    writer.Key("least_t_b").String(bounds.t_b.ToString()).EndObject();
    rows.push_back(FrontRow(name, steps, t_b, is_exact, seconds, construction));
  };
  for (const Candidate& one : front) {
    add(Notation(one.construction), FormatConstruction(one.construction), one.steps, one.t_b,
        one.prediction.is_exact);
  }
  writer.EndArray();
  if (request.json) return io::WriteOutput(writer.Text() + "\n", "");
  rows.push_back(FrontRow("lower bounds", bounds.steps, bounds.t_b, true,
                          Seconds(request, bounds.steps, bounds.t_b), ""));
  cli::PrintTable({{"NETWORK", "network"},
                   {"T_L", "t_l"},
                   {"T_B", "t_b"},
                   {"", "t_b_decimal"},
                   {"TIME", "time"},
                   {"CONSTRUCTION", "construction"}},
                  rows);
  return 0;
}

int Find(FindRequest request) {
  request.options.collective =
      forest::FindCollective(request.collective).value_or(Collective::kAllgather);
  const auto front = FindNetworks(request.options);
  if (!front) return io::ReportError(front.error());
  if (!request.cables.empty()) {
    const auto fastest = std::ranges::min_element(
        *front, {}, [&](const Candidate& one) { return Seconds(request, one.steps, one.t_b); });
    const auto network = BuildNetwork(fastest->construction);
    if (!network) return io::ReportError(network.error());
    const int code = io::WriteOutput(ListCables(network->graph), request.cables);
    if (code != 0) return code;
    fmt::print(stderr, "{}: the cables of {}\n", request.cables,
               FormatConstruction(fastest->construction));
  }
  return PrintFront(request, *front);
}

void AddFind(CLI::App& topology, int& exit_code) {
  auto request = std::make_shared<FindRequest>();
  CLI::App* command = topology.add_subcommand(
      "find", "Find the direct-connect networks with the best latency and bandwidth");
  command->add_option("--nodes", request->options.nodes, "Number of nodes")
      ->type_name("COUNT")
      ->required()
      ->check(CLI::Range(std::int64_t{2}, kMaxFinderNodes));
  command->add_option("--degree", request->options.degree, "Number of ports of a node")
      ->type_name("COUNT")
      ->required()
      ->check(CLI::Range(1, 64));
  command->add_flag("--bidirectional", request->options.bidirectional,
                    "Accept only networks whose links have both directions");
  command->add_option("--collective", request->collective, "Collective that the cost is for")
      ->check(CLI::IsMember({"allgather", "reduce-scatter", "allreduce"}))
      ->capture_default_str();
  command->add_option("--alpha", request->alpha_seconds, "Latency of a step, in seconds")
      ->type_name("SECONDS")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--bytes", request->bytes, "Size M of the data of all nodes, in bytes")
      ->type_name("BYTES")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--gbps", request->gbps, "Bandwidth B of a node's ports together, in Gbit/s")
      ->type_name("GBPS")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--cables", request->cables,
                   "File for the cables of the network with the least time, as CSV")
      ->type_name("FILE");
  command->add_flag("--json", request->json, "Print a JSON array instead of a table");
  command->footer(
      "Examples:\n"
      "  espalier topology find --nodes 1024 --degree 4\n"
      "  espalier topology find --nodes 12 --degree 4 --bidirectional --collective allreduce "
      "--bytes 1048576");
  command->callback([request, &exit_code] { exit_code = Find(*request); });
}

}  // namespace

void AddNetworkCommands(CLI::App& topology, int& exit_code) {
  CLI::App* make = topology.get_subcommand("make");
  AddFamilies(*make, exit_code);
  AddDirect(*make, exit_code);
  AddFind(topology, exit_code);
}

}  // namespace espalier::synthesis
