#include "deploy/cli/program/program_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/program/files/format_msccl_xml.h"
#include "collective/program/files/format_mscclpp_json.h"
#include "collective/program/files/program_file.h"
#include "collective/program/program_bytes.h"
#include "collective/program/served_sizes.h"
#include "collective/program/verifier/verifier.h"
#include "common/files/command_result.h"
#include "common/files/json_writer.h"

namespace espalier::program {
namespace {

constexpr int kMscclSlots = 2;
constexpr int kMaxSlots = 1 << 20;

// Reports what is wrong with the program of a file, and returns the exit code.
int Refuse(const std::string& file, const Violation& violation) {
  fmt::print(stderr, "espalier: {}: {}\n", file, violation.message);
  return io::kExitFailed;
}

Result<std::string> Format(const Program& program, const std::string& form, int ranks_per_node) {
  if (form == "json") return FormatProgramJson(program);
  if (form == "bytes") return EncodeProgram(program);
  if (form == "mscclpp-json") return FormatMscclppJson(program, {.ranks_per_node = ranks_per_node});
  const Verdict verdict = Verify(program, {.fifo_slots = kMscclSlots});
  if (verdict.violation) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("with the {} slots of a connection in MSCCL: {}", kMscclSlots,
                            verdict.violation->message));
  }
  return FormatMscclXml(program);
}

struct MakeRequest {
  std::string algorithm;
  algorithms::AlgorithmOptions options;
  std::string placement;
  std::string form = "json";
  std::string output;
  std::vector<std::string> given;  // options of algorithms on the command line
};

// Refuses an option that would have no effect on the program.
Result<void> CheckGiven(const MakeRequest& request) {
  const auto known =
      std::ranges::find(algorithms::Algorithms(), request.algorithm, &algorithms::Algorithm::name);
  if (known == algorithms::Algorithms().end()) return {};  // reported where it is made
  for (const std::string& option : request.given) {
    if (known->takes.find(option) != std::string_view::npos) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} does not take {} (`espalier program make --help` lists what each "
                            "algorithm takes)",
                            request.algorithm, option));
  }
  return {};
}

int Make(MakeRequest request) {
  if (const auto checked = CheckGiven(request); !checked) return io::ReportError(checked.error());
  if (!request.placement.empty()) {
    request.options.placement =
        BufferPlacement{.in_place = request.placement == "in-place",
                        .out_of_place = request.placement == "out-of-place"};
  }
  const auto made = algorithms::MakeAlgorithm(request.algorithm, request.options);
  if (!made) return io::ReportError(made.error());
  const Verdict verdict = Verify(*made, {.fifo_slots = request.options.fifo_slots});
  if (verdict.violation) return Refuse(request.algorithm, *verdict.violation);
  const auto text = Format(*made, request.form, request.options.ranks_per_node);
  return text ? io::WriteOutput(*text, request.output) : io::ReportError(text.error());
}

std::string ListAlgorithms() {
  std::string text = "Algorithms, with their options beyond --ranks:\n";
  for (const auto& one : algorithms::Algorithms()) {
    text += fmt::format("  {:<32} {}{}\n", one.name, one.summary,
                        one.takes.empty() ? "" : fmt::format(" ({})", one.takes));
  }
  return text;
}

void AddMake(CLI::App& group, int& exit_code) {
  auto* command = group.add_subcommand("make", "Make the program of an algorithm");
  command->footer(ListAlgorithms());
  auto request = std::make_shared<MakeRequest>();
  auto& options = request->options;
  const auto add_number = [command](const std::string& name, int& number, const char* type,
                                    const std::string& help) {
    return command->add_option(name, number, help)->type_name(type);
  };
  command->add_option("ALGORITHM", request->algorithm, "Name of the algorithm, as listed below")
      ->required();
  add_number("--ranks", options.ranks, "COUNT", "Number of ranks")->required();
  add_number("--root", options.root, "RANK", "Root of a broadcast, reduce or barrier (default: 0)");
  add_number("--base", options.base, "COUNT",
             "Upper bound on the members of a group of bcube (default: 2)");
  add_number("--ranks-per-node", options.ranks_per_node, "COUNT",
             "Number of ranks of each node (default: 0, all ranks on one node)");
  add_number("--pieces", options.pieces, "COUNT",
             "Number of pieces that a pipelined algorithm cuts a rank's share into (default: 0, "
             "chosen by the algorithm)");
  add_number("--steps", options.steps, "COUNT",
             "Number of steps of pairwise-exchange (default: 0, the binary logarithm of --ranks)");
  command
      ->add_option("--counts", options.counts,
                   "Number of chunks of each rank of a reduce-scatter, such as 2,1,1,0 (default: 1 "
                   "each)")
      ->type_name("COUNT")
      ->delimiter(',');
  add_number("--instances", options.instances, "COUNT",
             "Number of equal parts that move in parallel on channels of their own (default: 1)");
  add_number("--fifo-depth", options.fifo_slots, "COUNT",
             "Number of messages that a connection holds (default: 2)")
      ->check(CLI::Range(1, kMaxSlots));
  command
      ->add_option("--placement", request->placement,
                   "Buffer placement of the calls that the program serves (default: both if the "
                   "algorithm can without extra copies)")
      ->check(CLI::IsMember({"in-place", "out-of-place"}));
  command->add_option("--to", request->form, "Format to write")
      ->check(CLI::IsMember({"json", "msccl-xml", "mscclpp-json", "bytes"}))
      ->capture_default_str();
  command->add_option("-o,--output", request->output, "File to write (default: standard output)");
  command->callback([command, request, &exit_code] {
    // MSCCL++ files need --ranks-per-node, whatever the algorithm.
    for (const char* option : {"--root", "--base", "--pieces", "--steps", "--counts"}) {
      if (command->count(option) > 0) request->given.emplace_back(option);
    }
    exit_code = Make(*request);
  });
}

struct FileRequest {
  std::string file;
  int fifo_slots = kMscclSlots;
  bool json = false;
  std::string form;
  int ranks_per_node = 0;
  std::string output;
};

void WriteVerdict(const Program& program, const Verdict& verdict, io::JsonWriter& writer) {
  const Violation none{.rank = -1};
  const Violation& violation = verdict.violation ? *verdict.violation : none;
  writer.Key("name").String(program.name);
  writer.Key("collective").String(CollectiveKindName(program.collective.kind));
  writer.Key("ranks").Integer(program.collective.ranks);
  writer.Key("valid").Bool(!verdict.violation);
  writer.Key("violation").BeginObject();
  writer.Key("kind").String(verdict.violation ? ViolationKindName(violation.kind) : "");
  writer.Key("rank").Integer(violation.rank).Key("block").Integer(violation.block);
  writer.Key("step").Integer(violation.step).Key("message").String(violation.message).EndObject();
  const ServedSizes sizes = SizesServedBy(program);
  writer.Key("min_bytes").Integer(program.min_bytes);
  writer.Key("max_bytes").Integer(program.max_bytes);
  writer.Key("serves_calls").Bool(sizes.calls == ServedSizes::Calls::kSome);
  writer.Key("serves").String(DescribeServedSizes(program));
  writer.Key("needed_fifo_depth").Integer(verdict.violation ? 0 : verdict.needed_slots);
  writer.Key("same_bits").Bool(!verdict.violation && verdict.same_bits);
  writer.Key("has_postcondition").Bool(!verdict.violation && verdict.has_postcondition);
  writer.Key("root").Integer(verdict.violation ? kNoRoot : verdict.root);
}

int VerifyFile(const FileRequest& request) {
  const auto read = ReadAndVerify(request.file, {.fifo_slots = request.fifo_slots});
  if (!read) return io::ReportError(read.error());
  const auto& [program, verdict] = *read;
  if (request.json) {
    io::JsonWriter writer;
    writer.BeginObject();
    WriteVerdict(program, verdict, writer);
    writer.EndObject();
    fmt::print("{}\n", writer.Text());
    return verdict.violation ? io::kExitFailed : 0;
  }
  if (verdict.violation) return Refuse(request.file, *verdict.violation);
  fmt::print("{}: correct: {} of {} ranks, FIFO depth {} suffices, {}{}{}\n", request.file,
             CollectiveKindName(program.collective.kind), program.collective.ranks,
             verdict.needed_slots, DescribeServedSizes(program),
             verdict.same_bits ? "" : ", results are not bit-identical on all ranks",
             verdict.has_postcondition
                 ? ""
                 : "; the file does not specify the result, which was not checked");
  return 0;
}

void ShowText(const Program& program, const Verdict& verdict) {
  const CollectiveSpec& spec = program.collective;
  std::size_t most_blocks = 0;
  for (const RankProgram& rank : program.ranks) {
    most_blocks = std::max(most_blocks, rank.blocks.size());
  }
  fmt::print("{}: {} of {} ranks, {} chunk{}\n", program.name, CollectiveKindName(spec.kind),
             spec.ranks, spec.chunks, spec.chunks == 1 ? "" : "s");
  fmt::print("calls        {}{}{}\n", program.placement.in_place ? "in place" : "",
             program.placement.in_place && program.placement.out_of_place ? ", " : "",
             program.placement.out_of_place ? "out of place" : "");
  fmt::print("sizes        {}\n", DescribeServedSizes(program));
  fmt::print("channels     {}\nblocks       at most {} a rank\nsteps        {} of all ranks\n",
             CountChannels(program), most_blocks, CountSteps(program));
  if (verdict.violation) {
    fmt::print("incorrect    {}\n", verdict.violation->message);
    return;
  }
  const Cost cost = MeasureCost(program);
  const double chunks = spec.chunks;
  fmt::print("FIFO depth   {} suffices\n", verdict.needed_slots);
  fmt::print("latency      {} steps of communication\n", cost.steps);
  fmt::print("on the wire  {} messages; at most {:.4g} of the data by one rank, {:.4g} by all\n",
             cost.messages, static_cast<double>(cost.most_chunks_sent) / chunks,
             static_cast<double>(cost.total_chunks_sent) / chunks);
}

int ShowFile(const FileRequest& request) {
  const auto read = ReadAndVerify(request.file, {.fifo_slots = request.fifo_slots});
  if (!read) return io::ReportError(read.error());
  const auto& [program, verdict] = *read;
  if (!request.json) {
    ShowText(program, verdict);
    return 0;
  }
  const Cost cost = verdict.violation ? Cost() : MeasureCost(program);
  io::JsonWriter writer;
  writer.BeginObject();
  WriteVerdict(program, verdict, writer);
  writer.Key("chunks").Integer(program.collective.chunks);
  writer.Key("in_place").Bool(program.placement.in_place);
  writer.Key("out_of_place").Bool(program.placement.out_of_place);
  writer.Key("channels").Integer(CountChannels(program));
  writer.Key("program_steps").Integer(CountSteps(program));
  writer.Key("communication_steps").Integer(cost.steps);
  writer.Key("messages").Integer(cost.messages);
  writer.Key("most_chunks_sent").Integer(cost.most_chunks_sent);
  writer.Key("total_chunks_sent").Integer(cost.total_chunks_sent).EndObject();
  fmt::print("{}\n", writer.Text());
  return 0;
}

int ConvertFile(const FileRequest& request) {
  const auto read = ReadAndVerify(request.file, {.fifo_slots = request.fifo_slots});
  if (!read) return io::ReportError(read.error());
  const auto& [program, verdict] = *read;
  if (verdict.violation) return Refuse(request.file, *verdict.violation);
  const auto text = Format(program, request.form, request.ranks_per_node);
  if (!text)
    return io::ReportError({text.error().code, request.file + ": " + text.error().message});
  return io::WriteOutput(*text, request.output);
}

CLI::App* AddFileCommand(CLI::App& group, const char* name, const char* help,
                         const std::shared_ptr<FileRequest>& request) {
  auto* command = group.add_subcommand(name, help);
  command
      ->add_option("FILE", request->file,
                   "Program file: JSON, XML of MSCCL or RCCL, or an execution plan of MSCCL++")
      ->required();
  command
      ->add_option("--fifo-depth", request->fifo_slots,
                   "Number of messages that a connection holds")
      ->type_name("COUNT")
      ->check(CLI::Range(1, kMaxSlots))
      ->capture_default_str();
  return command;
}

}  // namespace

void AddProgramCommands(CLI::App& app, int& exit_code) {
  auto* group =
      app.add_subcommand("program", "Make, verify, show, convert and run collective programs");
  group->require_subcommand(1);
  AddMake(*group, exit_code);
  const auto add = [&](const char* name, const char* help, int (*run)(const FileRequest&)) {
    auto request = std::make_shared<FileRequest>();
    auto* command = AddFileCommand(*group, name, help, request);
    command->callback([request, run, &exit_code] { exit_code = run(*request); });
    return std::pair(command, request);
  };
  for (const auto& [command, request] :
       {add("verify", "Verify that a program is correct in every interleaving", VerifyFile),
        add("show", "Show what a program does and costs", ShowFile)}) {
    command->add_flag("--json", request->json, "Print one JSON object on standard output");
  }
  const auto [convert, request] =
      add("convert", "Verify a program and write it in another format", ConvertFile);
  convert->add_option("--to", request->form, "Format to write")
      ->check(CLI::IsMember({"json", "msccl-xml", "mscclpp-json", "bytes"}))
      ->required();
  convert
      ->add_option("--ranks-per-node", request->ranks_per_node,
                   "Number of ranks of each node, for mscclpp-json (default: 0, all ranks on one "
                   "node)")
      ->type_name("COUNT")
      ->check(CLI::NonNegativeNumber);
  convert->add_option("-o,--output", request->output, "File to write (default: standard output)");
}

}  // namespace espalier::program
