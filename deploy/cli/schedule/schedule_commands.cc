#include "deploy/cli/schedule/schedule_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "collective/program/files/format_msccl_xml.h"
#include "collective/program/files/format_mscclpp_json.h"
#include "collective/program/files/program_file.h"
#include "collective/program/verifier/verifier.h"
#include "collective/synthesis/all_to_all.h"
#include "collective/synthesis/concurrent_flow.h"
#include "collective/synthesis/construction.h"
#include "collective/synthesis/schedules/bfb.h"
#include "collective/synthesis/schedules/ring.h"
#include "collective/synthesis/schedules/schedule_json.h"
#include "collective/synthesis/schedules/schedule_program.h"
#include "common/files/command_result.h"
#include "common/files/file.h"
#include "common/files/json_writer.h"
#include "common/files/topology_file.h"
#include "deploy/cli/schedule/demand_file.h"

namespace espalier::synthesis {
namespace {

using fabric::Topology;

constexpr int kSlots = 2;                   // of a connection in MSCCL
constexpr std::int64_t kProgramParts = 16;  // of a message of an all-to-all

struct MakeRequest {
  std::string kind;
  std::string topology;
  std::string construction;
  std::string demand;
  std::string collective = "allgather";
  std::int64_t chunks = 0;
  std::string format = "json";
  std::string output;
};

// T_B over the least possible, (N - 1) / N for each phase.
Rational OverBound(const Schedule& schedule, const ScheduleCost& cost) {
  const std::int64_t phases = schedule.collective == Collective::kAllreduce ? 2 : 1;
  const Rational bound(phases * (schedule.node_count - 1), schedule.node_count);
  return Rational::Quotient(cost.t_b, bound).value_or(Rational());
}

std::string Summarise(const Topology& topology, const Schedule& schedule,
                      const ScheduleCost& cost) {
  std::string text = fmt::format(
      "{} of {} nodes: {} steps, {} chunk{} a shard, {} sends\n"
      "T_L {} alpha, T_B {} M/B ({:.4g} times the least possible)\n",
      forest::CollectiveName(schedule.collective), schedule.node_count, schedule.steps,
      schedule.chunks, schedule.chunks == 1 ? "" : "s", schedule.sends.size(), cost.steps,
      cost.t_b.ToString(), OverBound(schedule, cost).ToDouble());
  const auto id = [&](std::int32_t node) { return topology.node(fabric::NodeId(node)).id; };
  for (std::size_t step = 0; step < cost.step_loads.size(); ++step) {
    const StepLoad& load = cost.step_loads[step];
    text += fmt::format("  step {:<4} {:>10} of a shard per unit of bandwidth, on {} to {}\n",
                        step + 1, load.load.ToString(), id(load.from), id(load.to));
  }
  return text;
}

Result<std::string> FormatAsProgram(const Result<program::Program>& program,
                                    const std::string& format) {
  if (!program) return tl::unexpected<Error>(program.error());
  const program::Verdict verdict = program::Verify(*program, {.fifo_slots = kSlots});
  if (verdict.violation) {
    const bool is_too_large = verdict.violation->kind == program::ViolationKind::kTooLarge;
    return Fail(is_too_large ? ErrorCode::kResourceExhausted : ErrorCode::kInternal,
                program->name + ": " + verdict.violation->message);
  }
  if (format == "program") return program::FormatProgramJson(*program);
  if (format == "mscclpp-json") return program::FormatMscclppJson(*program);
  return program::FormatMscclXml(*program);
}

Result<Schedule> MakeOfKind(const MakeRequest& request, const Digraph& graph) {
  const auto collective = forest::FindCollective(request.collective);
  if (!collective) {
    return Fail(ErrorCode::kInvalidArgument, "unknown collective \"" + request.collective + "\"");
  }
  if (request.kind == "bfb") return MakeBfbSchedule(graph, *collective, request.chunks);
  if (request.chunks != 0) {
    return Fail(ErrorCode::kInvalidArgument, "--chunks works only with bfb and alltoall");
  }
  if (request.kind == "ring") return MakeRingSchedule(graph, *collective);
  const auto construction = ParseConstruction(request.construction);
  if (!construction) return tl::unexpected<Error>(construction.error());
  const auto network = BuildNetwork(*construction);
  if (!network) return tl::unexpected<Error>(network.error());
  // Files have no self-loops.
  const auto arcs = network->graph.arcs();
  if (!std::ranges::equal(arcs, graph.arcs()) ||
      graph.node_count() != network->graph.node_count()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "the topology is not that of the construction (make it with `topology make direct`)");
  }
  return MakeSchedule(*construction, *collective);
}

// Schedules number nodes. Returns the message with their names: "node 1" becomes "node h1".
std::string NameNodes(const std::string& message, const Topology& topology) {
  constexpr std::string_view kNode = "node ";
  std::string named;
  for (std::size_t at = 0; at < message.size();) {
    const std::size_t begin = message.find(kNode, at);
    if (begin == std::string::npos) return named + message.substr(at);
    const std::size_t digits = begin + kNode.size();
    const std::size_t end =
        std::min(message.find_first_not_of("0123456789", digits), message.size());
    named += message.substr(at, digits - at);
    std::size_t number = topology.nodes().size();
    std::from_chars(message.data() + digits, message.data() + end, number);
    named += number < topology.nodes().size() ? topology.nodes()[number].id
                                              : message.substr(digits, end - digits);
    at = end;
  }
  return named;
}

// Names the file and the nodes in an error that is about the topology.
int ReportWith(const std::string& file, const Topology& topology, const Error& error) {
  return io::ReportError({error.code, file + ": " + NameNodes(error.message, topology)},
                         error.code == ErrorCode::kInternal ? io::kExitFailed : io::kExitBadInput);
}

// The figures of an all-to-all. Rates are relative to a link of `unit`, and times are those of the
// demand in bytes.
std::string SummariseAllToAll(const AllToAll& all, const AllToAllCost& cost, BitsPerSecond unit,
                              std::int32_t nodes, bool json) {
  const double gap = all.bound.ToDouble() / all.rate.ToDouble() - 1;
  const double seconds_per_byte = 8 / static_cast<double>(unit.value);
  const double seconds = cost.overlapped.ToDouble() * seconds_per_byte;
  const double in_steps = cost.stepwise.ToDouble() * seconds_per_byte;
  if (!json) {
    return fmt::format(
        "alltoall of {} nodes: {} steps, {} trees\n"
        "rate of a {} {} of a link ({:.4g}), at most {:.4g} % below the best\n"
        "time of {}: {:.4g} s in steps, {:.4g} s if they overlap, at least {:.4g} s\n",
        nodes, cost.steps, all.routing.size(), all.demand.empty() ? "message" : "byte",
        all.rate.ToString(), all.rate.ToDouble(), 100 * gap,
        all.demand.empty() ? "one byte to each node" : "the demand", in_steps, seconds,
        seconds_per_byte / all.bound.ToDouble());
  }
  io::JsonWriter writer;
  writer.BeginObject().Key("collective").String("alltoall").Key("nodes").Integer(nodes);
  writer.Key("t_l").String(std::to_string(cost.steps)).Key("rate").String(all.rate.ToString());
  writer.Key("rate_bound").String(all.bound.ToString());
  writer.Key("seconds_in_steps").Double(in_steps).Key("seconds").Double(seconds);
  writer.Key("least_seconds").Double(seconds_per_byte / all.bound.ToDouble());
  writer.Key("trees").Integer(static_cast<std::int64_t>(all.routing.size())).EndObject();
  return writer.Text() + "\n";
}

Result<Demand> ReadDemand(const std::string& path, const Topology& topology) {
  if (path.empty()) return Demand();
  const auto text = io::ReadFile(path);
  if (!text) return tl::unexpected<Error>(text.error());
  return ParseDemand(*text, path, topology);
}

int MakeAllToAll(const MakeRequest& request, const Topology& topology,
                 const DirectNetwork& network) {
  auto demand = ReadDemand(request.demand, topology);
  if (!demand) return io::ReportError(demand.error(), io::kExitBadInput);
  const Digraph& graph = network.graph;
  const bool is_program = request.format != "json" && request.format != "summary";
  const std::int64_t parts = request.chunks == 0 && is_program ? kProgramParts : request.chunks;
  const auto all = ComputeAllToAll(graph, {.parts = parts}, std::move(*demand));
  if (!all) return ReportWith(request.topology, topology, all.error());
  const auto cost = VerifyAllToAll(graph, *all);
  if (!cost)
    return ReportWith(request.topology, topology, {ErrorCode::kInternal, cost.error().message});
  const auto text =
      is_program
          ? FormatAsProgram(MakeAllToAllProgram("alltoall", *all, graph.node_count(), kSlots),
                            request.format)
          : SummariseAllToAll(*all, *cost, network.unit, graph.node_count(),
                              request.format == "json");
  if (!text) return ReportWith(request.topology, topology, text.error());
  return io::WriteOutput(*text, request.output);
}

int Make(const MakeRequest& request) {
  if ((request.kind == "construction") == request.construction.empty()) {
    return io::ReportError({ErrorCode::kInvalidArgument,
                            "--construction belongs to `schedule make construction` (give both)"});
  }
  if (request.kind != "alltoall" && !request.demand.empty()) {
    return io::ReportError({ErrorCode::kInvalidArgument, "--demand works only with alltoall"});
  }
  const auto topology = io::ReadTopologyFile(request.topology);
  if (!topology) return io::ReportError({ErrorCode::kInvalidArgument, topology.error().message});
  const auto network = ReadNetwork(*topology);
  if (!network) return ReportWith(request.topology, *topology, network.error());
  if (request.kind == "alltoall") return MakeAllToAll(request, *topology, *network);
  const auto schedule = MakeOfKind(request, network->graph);
  if (!schedule) return ReportWith(request.topology, *topology, schedule.error());
  const auto cost = VerifySchedule(network->graph, *schedule);
  if (!cost)
    return ReportWith(request.topology, *topology, {ErrorCode::kInternal, cost.error().message});
  const std::string name = request.kind + "-" + request.collective;
  auto text = request.format == "json" ? FormatScheduleJson(*topology, *schedule, *cost)
              : request.format == "summary"
                  ? Result<std::string>(Summarise(*topology, *schedule, *cost))
                  : FormatAsProgram(MakeScheduleProgram(name, *schedule, kSlots), request.format);
  if (!text) return ReportWith(request.topology, *topology, text.error());
  if (request.format == "json") *text += "\n";
  return io::WriteOutput(*text, request.output);
}

struct VerifyRequest {
  std::string topology;
  std::string schedule;
  bool json = false;
};

void WriteVerdict(const Topology& topology, const Schedule& schedule,
                  const Result<ScheduleCost>& cost) {
  const ScheduleCost& found = cost ? *cost : ScheduleCost();
  io::JsonWriter writer;
  writer.BeginObject().Key("valid").Bool(cost.has_value());
  writer.Key("violation").String(cost ? "" : NameNodes(cost.error().message, topology));
  writer.Key("collective").String(forest::CollectiveName(schedule.collective));
  writer.Key("nodes").Integer(schedule.node_count).Key("chunks").Integer(schedule.chunks);
  writer.Key("sends").Integer(static_cast<std::int64_t>(schedule.sends.size()));
  writer.Key("t_l").String(std::to_string(found.steps)).Key("t_b").String(found.t_b.ToString());
  writer.Key("over_bound").String(OverBound(schedule, found).ToString());
  writer.Key("duplicate_chunks").Integer(found.duplicate_chunks);
  writer.Key("busiest").BeginArray();
  for (const StepLoad& load : found.step_loads) {
    writer.BeginObject().Key("load").String(load.load.ToString());
    writer.Key("from").String(topology.node(fabric::NodeId(load.from)).id);
    writer.Key("to").String(topology.node(fabric::NodeId(load.to)).id).EndObject();
  }
  writer.EndArray().EndObject();
  fmt::print("{}\n", writer.Text());
}

int Verify(const VerifyRequest& request) {
  const auto topology = io::ReadTopologyFile(request.topology);
  if (!topology) return io::ReportError({ErrorCode::kInvalidArgument, topology.error().message});
  const auto network = ReadNetwork(*topology);
  if (!network) return ReportWith(request.topology, *topology, network.error());
  const auto text = io::ReadFile(request.schedule);
  if (!text) return io::ReportError({ErrorCode::kInvalidArgument, text.error().message});
  const auto file = ParseScheduleJson(*text, request.schedule, *topology);
  if (!file) return io::ReportError({ErrorCode::kInvalidArgument, file.error().message});
  const auto cost = VerifyScheduleFile(network->graph, *file);
  if (request.json) WriteVerdict(*topology, file->schedule, cost);
  if (!cost) {
    fmt::print(stderr, "espalier: {}: {}\n", request.schedule,
               NameNodes(cost.error().message, *topology));
    return io::kExitFailed;
  }
  if (!request.json) {
    fmt::print("{}: the schedule is valid\n{}", request.schedule,
               Summarise(*topology, file->schedule, *cost));
  }
  return 0;
}

void AddMake(CLI::App& group, int& exit_code) {
  auto request = std::make_shared<MakeRequest>();
  CLI::App* command =
      group.add_subcommand("make", "Make the schedule of a collective on a direct-connect network");
  command
      ->add_option("KIND", request->kind,
                   "Kind of schedule: breadth-first broadcast, the classic ring, the schedule of a "
                   "construction's expansions, or an all-to-all at the best rate")
      ->required()
      ->check(CLI::IsMember({"bfb", "ring", "construction", "alltoall"}));
  command->add_option("--topology", request->topology, "Topology file of compute nodes")
      ->required();
  command->add_option("--collective", request->collective, "Collective of all kinds but alltoall")
      ->check(CLI::IsMember({"allgather", "reduce-scatter", "allreduce"}))
      ->capture_default_str();
  command
      ->add_option("--chunks", request->chunks,
                   "Number of equal parts of a shard, for bfb, or of a message, for alltoall "
                   "(default: as many as the least time needs; 16 for a program of alltoall)")
      ->type_name("COUNT")
      ->check(CLI::Range(std::int64_t{1}, kMaxChunks));
  command
      ->add_option("--construction", request->construction,
                   "Construction that the topology was made from, for construction")
      ->type_name("TEXT");
  command->add_option("--demand", request->demand,
                      "JSON file with the bytes that each node sends to each other, for alltoall: "
                      "{\"n0\": {\"n1\": 1024}} (default: equal)");
  command
      ->add_option("--format", request->format,
                   "Format of the output; program is the JSON of a collective program, and json of "
                   "alltoall has its figures")
      ->check(CLI::IsMember({"json", "summary", "program", "msccl-xml", "mscclpp-json"}))
      ->capture_default_str();
  command->add_option("-o,--output", request->output, "File to write (default: standard output)");
  command->footer(
      "Examples:\n"
      "  espalier topology make torus --dims 4x4 -o torus.json\n"
      "  espalier schedule make bfb --topology torus.json --collective allreduce --format summary");
  command->callback([request, &exit_code] { exit_code = Make(*request); });
}

void AddVerify(CLI::App& group, int& exit_code) {
  auto request = std::make_shared<VerifyRequest>();
  CLI::App* command = group.add_subcommand(
      "verify", "Check that a schedule is correct and costs what its file states");
  command->add_option("--topology", request->topology, "Topology file of compute nodes")
      ->required();
  command->add_option("SCHEDULE", request->schedule, "Schedule file (JSON)")->required();
  command->add_flag("--json", request->json, "Print one JSON object instead of text");
  command->callback([request, &exit_code] { exit_code = Verify(*request); });
}

}  // namespace

void AddScheduleCommands(CLI::App& app, int& exit_code) {
  CLI::App* group = app.add_subcommand(
      "schedule", "Make and verify schedules of steps on direct-connect networks");
  group->require_subcommand(1);
  AddMake(*group, exit_code);
  AddVerify(*group, exit_code);
}

}  // namespace espalier::synthesis
