#include "deploy/cli/bench/bench_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files/command_result.h"
#include "common/files/file.h"
#include "common/files/json_writer.h"
#include "deploy/cli/bench/bench_explain.h"
#include "deploy/cli/bench/bench_run.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

struct Arguments {
  BenchRequest request;
  std::string transport = "shm";
  std::string min_size = "8";
  std::string max_size = "256M";
  bool explain = false;
  bool json = false;
};

// Parses "8", "64K", "256M" or "1G". Returns 0 for any other text.
std::size_t ParseSize(const std::string& text) {
  std::size_t digits = 0;
  unsigned long long value = 0;
  try {
    value = std::stoull(text, &digits);
  } catch (const std::exception&) {
    return 0;
  }
  const std::string unit = text.substr(digits);
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  constexpr unsigned long long kMost = 1ULL << 40;
  if (shift < 0 || value > kMost >> shift) return 0;
  return static_cast<std::size_t>(value) << shift;
}

void PrintTable(const std::vector<BenchRow>& rows) {
  fmt::print("{:>12} {:>12} {:>12} {:>12} {:>11} {:>11} {:>7}\n", "bytes", "time us", "min us",
             "cpu us", "algbw GB/s", "busbw GB/s", "errors");
  for (const BenchRow& row : rows) {
    fmt::print("{:>12} {:>12.2f} {:>12.2f} {:>12.2f} {:>11.3f} {:>11.3f} {:>7}\n", row.bytes,
               row.seconds * 1e6, row.minimum_seconds * 1e6, row.cpu_seconds * 1e6, row.algbw / 1e9,
               row.busbw / 1e9, row.errors);
  }
}

void PrintJson(const Arguments& arguments, const std::vector<BenchRow>& rows) {
  const BenchRequest& request = arguments.request;
  io::JsonWriter json;
  json.BeginObject();
  json.Key("collective").String(program::CollectiveKindName(request.kind));
  json.Key("ranks").Integer(request.ranks);
  json.Key("transport").String(arguments.transport);
  json.Key("registered").Bool(request.registered);
  json.Key("connections").Integer(request.connections);
  json.Key("rows").BeginArray();
  for (const BenchRow& row : rows) {
    json.BeginObject();
    json.Key("bytes").Integer(static_cast<std::int64_t>(row.bytes));
    json.Key("seconds").Double(row.seconds);
    json.Key("minimum_seconds").Double(row.minimum_seconds);
    json.Key("cpu_seconds").Double(row.cpu_seconds);
    json.Key("extra_bytes").Double(row.extra_bytes);
    json.Key("algbw_gbytes").Double(row.algbw / 1e9);
    json.Key("busbw_gbytes").Double(row.busbw / 1e9);
    json.Key("errors").Integer(row.errors);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  fmt::print("{}\n", json.Text());
}

void PrintExplanation(const Explanation& explanation) {
  const Costs& costs = explanation.costs;
  fmt::print(
      "costs: {:.3g} us a round, {:.3g} us a message, {:.3g} ns a byte, {:.3g} ns a reduced byte\n",
      costs.round * 1e6, costs.message * 1e6, costs.byte * 1e9, costs.reduced_byte * 1e9);
  fmt::print("{:>12} {:<32} {:>8} {:>9} {:>13} {:>13}\n", "bytes", "candidate", "rounds",
             "messages", "predicted us", "measured us");
  for (const ExplainedSize& size : explanation.sizes) {
    for (std::size_t i = 0; i < size.candidates.size(); ++i) {
      const ExplainedCandidate& one = size.candidates[i];
      fmt::print("{:>12} {:<32} {:>8} {:>9} {:>13.2f} {:>13.2f}{}{}\n", size.bytes, one.algorithm,
                 one.work.rounds, one.work.messages, one.predicted_seconds * 1e6,
                 one.measured_seconds * 1e6, i == size.chosen ? "  chosen" : "",
                 i == size.fastest ? "  fastest" : "");
    }
  }
}

void PrintExplanationJson(const Arguments& arguments, const Explanation& explanation) {
  io::JsonWriter json;
  json.BeginObject();
  json.Key("collective").String(program::CollectiveKindName(arguments.request.kind));
  json.Key("ranks").Integer(arguments.request.ranks);
  json.Key("transport").String(arguments.transport);
  json.Key("round_seconds").Double(explanation.costs.round);
  json.Key("message_seconds").Double(explanation.costs.message);
  json.Key("byte_seconds").Double(explanation.costs.byte);
  json.Key("reduced_byte_seconds").Double(explanation.costs.reduced_byte);
  json.Key("sizes").BeginArray();
  for (const ExplainedSize& size : explanation.sizes) {
    json.BeginObject();
    json.Key("bytes").Integer(static_cast<std::int64_t>(size.bytes));
    json.Key("chosen").String(size.candidates[size.chosen].algorithm);
    json.Key("fastest").String(size.candidates[size.fastest].algorithm);
    json.Key("candidates").BeginArray();
    for (const ExplainedCandidate& one : size.candidates) {
      json.BeginObject();
      json.Key("algorithm").String(one.algorithm);
      json.Key("rounds").Double(one.work.rounds);
      json.Key("messages").Double(one.work.messages);
      json.Key("predicted_seconds").Double(one.predicted_seconds);
      json.Key("measured_seconds").Double(one.measured_seconds);
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  fmt::print("{}\n", json.Text());
}

int RunExplain(const Arguments& arguments) {
  const auto explanation = ExplainBench(arguments.request);
  if (!explanation) return io::ReportError(explanation.error());
  if (arguments.json) {
    PrintExplanationJson(arguments, *explanation);
  } else {
    PrintExplanation(*explanation);
  }
  return 0;
}

struct FitArguments {
  std::vector<int> ranks = {2, 4, 8};
  std::string file;
};

// Keeps the entries that the file has for other transports and numbers of ranks.
int RunFit(const FitArguments& arguments) {
  std::vector<MeasuredCosts> table;
  std::error_code ignored;
  if (std::filesystem::exists(arguments.file, ignored)) {
    auto read = ReadCostsFile(arguments.file);
    if (!read) return io::ReportError(read.error());
    table = std::move(*read);
  }
  for (const Medium medium : {Medium::kShared, Medium::kTcp}) {
    for (const int ranks : arguments.ranks) {
      const auto costs = FitBench(ranks, medium);
      if (!costs) return io::ReportError(costs.error());
      std::erase_if(table, [&](const MeasuredCosts& one) {
        return one.medium == medium && one.ranks == ranks;
      });
      table.push_back({medium, ranks, *costs});
    }
  }
  const auto written = io::WriteFileDurably(arguments.file, FormatCosts(table));
  if (!written) return io::ReportError(written.error());
  fmt::print("{}", FormatCosts(table));
  return 0;
}

void AddFit(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "fit",
      "Measure what rounds, messages and bytes cost on this machine, for the choice of algorithms");
  auto arguments = std::make_shared<FitArguments>();
  command->add_option("FILE", arguments->file, "File of costs to create or update")->required();
  command
      ->add_option("--ranks", arguments->ranks,
                   "Numbers of processes to measure, separated by commas")
      ->type_name("COUNT")
      ->delimiter(',')
      ->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = RunFit(*arguments); });
}

int RunCommand(Arguments& arguments) {
  BenchRequest& request = arguments.request;
  request.min_bytes = ParseSize(arguments.min_size);
  request.max_bytes = ParseSize(arguments.max_size);
  request.medium = arguments.transport == "tcp" ? Medium::kTcp : Medium::kShared;
  if (arguments.explain) return RunExplain(arguments);
  const auto rows = RunBench(request);
  if (!rows) return io::ReportError(rows.error());
  if (arguments.json) {
    PrintJson(arguments, *rows);
  } else {
    PrintTable(*rows);
  }
  const bool is_right =
      std::all_of(rows->begin(), rows->end(), [](const BenchRow& row) { return row.errors == 0; });
  if (!is_right) {
    fmt::print(stderr,
               "espalier: the collective computed wrong results (see the count of errors)\n");
  }
  return is_right ? 0 : io::kExitFailed;
}

void AddBenchOptions(CLI::App& command, Arguments& arguments) {
  BenchRequest& request = arguments.request;
  command.add_option("--ranks", request.ranks, "Number of processes")
      ->type_name("COUNT")
      ->capture_default_str();
  command
      .add_option("--transport", arguments.transport, "Transport between ranks; tcp uses loopback")
      ->check(CLI::IsMember({"shm", "tcp"}))
      ->capture_default_str();
  command.add_flag("--registered", request.registered,
                   "Use registered buffers, which all ranks share (shm only)");
  command
      .add_option("-b,--min", arguments.min_size,
                  "Smallest size, in bytes or with a suffix K, M or G (powers of 1,024)")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      .add_option("-e,--max", arguments.max_size,
                  "Largest size, in bytes or with a suffix K, M or G (powers of 1,024)")
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("-f,--factor", request.factor, "Factor from one size to the next")
      ->type_name("FACTOR")
      ->capture_default_str();
  command
      .add_option("-n,--repetitions", request.repetitions,
                  "Measurements of each size, of which the median is printed")
      ->type_name("COUNT")
      ->capture_default_str();
  command
      .add_option("--connections", request.connections,
                  "Number of connections to each peer (tcp only)")
      ->type_name("COUNT")
      ->capture_default_str();
  command.add_flag("--bind", request.binds, "Bind each rank to one core");
  command.add_option("--costs", request.costs_file,
                     "File of costs that `espalier bench fit` has written");
  command
      .add_option("--algorithm", request.algorithm,
                  "Algorithm for all sizes (default: chosen by size); over shm small, staged, "
                  "staged-streaming or single-copy")
      ->type_name("NAME");
  command.add_flag("--explain", arguments.explain,
                   "Print the predicted and the measured time of every algorithm for every size");
  command.add_flag("--json", arguments.json, "Print one JSON object on standard output");
}

}  // namespace

void AddBenchCommands(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Measure collectives between processes of this machine (f32, sum, out of place)");
  bench->require_subcommand(1);
  AddFit(*bench, exit_code);
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
        CollectiveKind::kBroadcast, CollectiveKind::kReduce, CollectiveKind::kAllToAll,
        CollectiveKind::kBarrier}) {
    const std::string name(program::CollectiveKindName(kind));
    CLI::App* command = bench->add_subcommand(name, "Measure " + name);
    auto arguments = std::make_shared<Arguments>();
    arguments->request.kind = kind;
    AddBenchOptions(*command, *arguments);
    command->footer("Examples:\n  espalier bench " + name + " --ranks 4 -b 8 -e 64M -f 4");
    command->callback([arguments, &exit_code] { exit_code = RunCommand(*arguments); });
  }
}

}  // namespace espalier::runtime
