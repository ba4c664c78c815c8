#include "collective/runtime/cli/bench_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>

#include "collective/runtime/cli/bench_run.h"
#include "common/io/command_result.h"
#include "common/io/json.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

struct Arguments {
  BenchRequest request;
  std::string transport = "shm";
  std::string min_size = "8";
  std::string max_size = "256M";
  bool json = false;
};

// "8", "64K", "256M", "1G". 0 for what is none.
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

int RunCommand(Arguments& arguments) {
  BenchRequest& request = arguments.request;
  request.min_bytes = ParseSize(arguments.min_size);
  request.max_bytes = ParseSize(arguments.max_size);
  request.medium = arguments.transport == "tcp" ? Medium::kTcp : Medium::kShared;
  const auto rows = RunBench(request);
  if (!rows) return io::Complain(rows.error());
  if (arguments.json) {
    PrintJson(arguments, *rows);
  } else {
    PrintTable(*rows);
  }
  const bool is_right =
      std::all_of(rows->begin(), rows->end(), [](const BenchRow& row) { return row.errors == 0; });
  if (!is_right) fmt::print(stderr, "espalier: results were wrong\n");
  return is_right ? 0 : io::kExitFailed;
}

}  // namespace

void AddBenchCommands(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Measures collectives between processes of this machine (f32, sum, out of place)");
  bench->require_subcommand(1);
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
        CollectiveKind::kBroadcast, CollectiveKind::kReduce, CollectiveKind::kAllToAll,
        CollectiveKind::kBarrier}) {
    const std::string name(program::CollectiveKindName(kind));
    CLI::App* command = bench->add_subcommand(name, "Measures " + name);
    auto arguments = std::make_shared<Arguments>();
    arguments->request.kind = kind;
    command->add_option("--ranks", arguments->request.ranks, "Processes")->capture_default_str();
    command->add_option("--transport", arguments->transport, "shm or tcp (loopback)")
        ->check(CLI::IsMember({"shm", "tcp"}))
        ->capture_default_str();
    command->add_flag("--registered", arguments->request.registered,
                      "Buffers that all ranks share (shm)");
    command->add_option("-b,--min", arguments->min_size, "Smallest size in bytes (K, M, G)")
        ->capture_default_str();
    command->add_option("-e,--max", arguments->max_size, "Largest size")->capture_default_str();
    command->add_option("-f,--factor", arguments->request.factor, "From one size to the next")
        ->capture_default_str();
    command->add_option("-n,--repetitions", arguments->request.repetitions, "Of each size")
        ->capture_default_str();
    command->add_option("--connections", arguments->request.connections, "To each peer (tcp)")
        ->capture_default_str();
    command->add_flag("--json", arguments->json, "The result as JSON");
    command->callback([arguments, &exit_code] { exit_code = RunCommand(*arguments); });
  }
}

}  // namespace espalier::runtime
