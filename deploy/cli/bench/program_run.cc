#include "deploy/cli/bench/program_run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <utility>

#include "collective/program/files/program_file.h"
#include "collective/runtime/program/active_plan.h"
#include "common/files/command_result.h"
#include "common/files/json_writer.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

struct Arguments {
  ProgramRunRequest request;
  std::string transport = "shm";
  bool json = false;
};

Result<program::Program> ReadRightProgram(const std::string& file) {
  auto read = program::ReadAndVerify(file);
  if (!read) return Propagate(read);
  if (read->verdict.violation) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("{}: {}", file, read->verdict.violation->message));
  }
  const auto ranks = static_cast<int>(read->program.ranks.size());
  auto plan = CheckCollectivePlan(
      {.program = std::make_shared<const program::Program>(std::move(read->program)),
       .generation = 1,
       .source_ports = {}},
      0, ranks);
  if (plan) return *plan->program;
  return Fail(ErrorCode::kFailedPrecondition, fmt::format("{}: {}", file, plan.error().message));
}

void Print(const Arguments& arguments, const BenchRow& row) {
  if (!arguments.json) {
    fmt::print("{}: {} bytes over {}: {:.2f} us ({:.3f} GB/s), {} wrong elements\n",
               arguments.request.file, row.bytes, arguments.transport, row.seconds * 1e6,
               row.algbw / 1e9, row.errors);
    return;
  }
  io::JsonWriter json;
  json.BeginObject();
  json.Key("file").String(arguments.request.file);
  json.Key("transport").String(arguments.transport);
  json.Key("bytes").Integer(static_cast<std::int64_t>(row.bytes));
  json.Key("seconds").Double(row.seconds);
  json.Key("algbw_gbytes").Double(row.algbw / 1e9);
  json.Key("errors").Integer(row.errors);
  json.EndObject();
  fmt::print("{}\n", json.Text());
}

int Run(Arguments& arguments) {
  arguments.request.medium = arguments.transport == "tcp" ? Medium::kTcp : Medium::kShared;
  const auto row = RunProgramFile(arguments.request);
  if (!row) return io::ReportError(row.error());
  Print(arguments, *row);
  return row->errors == 0 ? 0 : io::kExitFailed;
}

}  // namespace

Result<BenchRow> RunProgramFile(const ProgramRunRequest& request) {
  auto read = ReadRightProgram(request.file);
  if (!read) return Propagate(read);
  const CollectiveKind kind = read->collective.kind;
  const auto size = static_cast<std::int64_t>(request.bytes);
  if (kind == CollectiveKind::kCustom) {
    return Fail(
        ErrorCode::kUnsupported,
        fmt::format("{}: a custom collective cannot run here, as there is no known result to "
                    "compare with",
                    request.file));
  }
  if (size < read->min_bytes || size > read->max_bytes) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{}: the program serves calls of {} to {} bytes, not {} (see --bytes)",
                            request.file, read->min_bytes, read->max_bytes, size));
  }
  const auto ranks = static_cast<int>(read->ranks.size());
  auto rows = RunBench({.kind = kind,
                        .ranks = ranks,
                        .medium = request.medium,
                        .registered = false,
                        .min_bytes = request.bytes,
                        .max_bytes = request.bytes,
                        .factor = 2,
                        .repetitions = request.repetitions,
                        .connections = 1,
                        .costs_file = "",
                        .algorithm = "",
                        .program = std::make_shared<const program::Program>(std::move(*read))});
  if (!rows) return Propagate(rows);
  return rows->front();
}

void AddProgramRunCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.get_subcommand("program")->add_subcommand(
      "run", "Run a program between processes of this machine and check its results");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("FILE", arguments->request.file,
                   "Program file: JSON, XML of MSCCL or RCCL, or an execution plan of MSCCL++")
      ->required();
  command
      ->add_option("-b,--bytes", arguments->request.bytes,
                   "Size of the data of all ranks together, in bytes or with a suffix K, M or G "
                   "(powers of 1,024)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command
      ->add_option("--transport", arguments->transport,
                   "Transport between ranks; tcp uses loopback")
      ->check(CLI::IsMember({"shm", "tcp"}))
      ->capture_default_str();
  command->add_option("-n,--repetitions", arguments->request.repetitions, "Number of measurements")
      ->type_name("COUNT")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print one JSON object on standard output");
  command->callback([arguments, &exit_code] { exit_code = Run(*arguments); });
}

}  // namespace espalier::runtime
