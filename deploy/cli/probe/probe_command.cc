#include "deploy/cli/probe/probe_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/terminal/table.h"
#include "deploy/cli/probe/probe_summary.h"
#include "deploy/cli/probe/sweep.h"

namespace espalier::cli {
namespace {

constexpr unsigned kPortsOfExport = 64;

struct ProbeOptions {
  std::string source;
  std::string destination;
  unsigned port = 0;
  unsigned ports = 0;
  std::string output = "table";
  bool is_sweep = false;
  std::size_t pairs = 256;
};

std::optional<io::JsonValue> AskForProbe(Session& session, const ProbeOptions& options,
                                         bool print_json) {
  std::string target = "/api/v1/probe?source=" + UrlEncode(options.source) +
                       "&destination=" + UrlEncode(options.destination);
  if (options.port != 0) target += fmt::format("&port={}", options.port);
  if (options.ports != 0) target += fmt::format("&ports={}", options.ports);
  return Ask(session, "POST", target, print_json);
}

// Prints the controller's answer with the summary as one more member.
void PrintJson(const io::JsonValue& answer, const std::vector<ProbeCount>& summary) {
  io::JsonWriter json;
  json.BeginObject();
  for (const auto& [key, value] : answer.members) json.Key(key).Value(value);
  json.Key("summary").BeginArray();
  for (const ProbeCount& path : summary) {
    json.BeginObject();
    json.Key("via").String(path.name == "-" ? "" : path.name);
    json.Key("ports").Integer(static_cast<std::int64_t>(path.sent));
    json.Key("answered").Integer(static_cast<std::int64_t>(path.answered));
    json.Key("lost_behind").BeginArray();
    for (const auto& [direction, count] : path.lost_behind) json.String(direction);
    json.EndArray().EndObject();
  }
  json.EndArray();
  fmt::print("{}\n", json.EndObject().Text());
}

void Run(Session& session, const ProbeOptions& options) {
  const auto answer = AskForProbe(session, options, /*print_json=*/false);
  if (!answer) return;
  const std::vector<ProbeCount> summary = SummarizeProbe(*answer);
  if (session.json) return PrintJson(*answer, summary);
  PrintTable({{"PORT", "port"},
              {"STATE", "state", CellFormat::kState},
              {"VIA", "via"},
              {"NO ANSWER FROM", "silent_from"},
              {"RTT us", "rtt_us"},
              {"KNOWN", "known_via"},
              {"TRUST", "known_trust"}},
             answer->Find("ports")->items);
  fmt::print("\n{}", DescribeProbe(summary));
}

void RunExport(Session& session, const ProbeOptions& options) {
  session.json = session.json || options.output == "json";
  const auto answer = AskForProbe(session, options, /*print_json=*/true);
  if (!answer || session.json) return;
  std::vector<io::JsonValue> usable;
  for (const io::JsonValue& port : answer->Find("ports")->items) {
    if (std::stod(port.Find("weight")->text) > 0) usable.push_back(port);
  }
  const std::vector<Column> columns = {
      {"PORT", "port"}, {"FLOW LABEL", "flow_label"}, {"WEIGHT", "weight"}, {"VIA", "via"}};
  if (options.output == "csv") {
    fmt::print("{}", FormatCsv(columns, usable));
  } else {
    PrintTable(columns, usable);
  }
}

}  // namespace

void AddPaths(CLI::App& app, const SessionPtr& session) {
  CLI::App* group = app.add_subcommand("paths", "Export paths for senders that spread packets");
  group->require_subcommand(1);
  CLI::App* command = AddCommand(
      *group, session, "export",
      "Print source ports with weights for a sender that spreads its packets over several paths; "
      "repeat it after a failure (`espalier events --follow` reports it)");
  const auto options = std::make_shared<ProbeOptions>();
  options->ports = kPortsOfExport;
  command->add_option("SOURCE", options->source, "Host or NIC that sends")->required();
  command->add_option("DESTINATION", options->destination, "Host or NIC behind another leaf")
      ->required();
  command
      ->add_option("--ports", options->ports,
                   "Number of source ports to probe, spread over those of RoCEv2 (default: 64)")
      ->type_name("COUNT")
      ->check(CLI::Range(1U, kPortsOfExport));
  command->add_option("--output,-o", options->output, "Form of the output")
      ->type_name("FORM")
      ->check(CLI::IsMember({"table", "csv", "json"}));
  command->callback([session, options] { RunExport(*session, *options); });
}

void AddProbe(CLI::App& app, const SessionPtr& session) {
  CLI::App* command = AddCommand(app, session, "probe",
                                 "Show which path each source port takes now, by probes of a host; "
                                 "or, with --sweep, behind which links probes have no answer");
  const auto options = std::make_shared<ProbeOptions>();
  CLI::Option* source = command->add_option(
      "SOURCE", options->source, "Host or NIC whose agent sends the probes; with --sweep a leaf");
  command->add_option("DESTINATION", options->destination,
                      "Host or NIC behind another leaf; with --sweep the other leaf");
  CLI::Option* port =
      command->add_option("--port", options->port, "Source port to probe, or the first of several")
          ->type_name("PORT")
          ->check(CLI::Range(1, 65'535));
  command
      ->add_option("--ports", options->ports,
                   "Number of source ports to probe, spread over those of RoCEv2 (default: 8, or 1 "
                   "with --port; 16 for each pair with --sweep)")
      ->type_name("COUNT")
      ->check(CLI::Range(1, 64));
  CLI::Option* sweep =
      command
          ->add_flag("--sweep", options->is_sweep,
                     "Probe between two leaves in both directions, or between all pairs of leaves")
          ->excludes(port);
  command->add_option("--pairs", options->pairs, "Probe at most so many pairs of leaves")
      ->type_name("COUNT")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000))
      ->needs(sweep);
  command->footer("Examples:\n  espalier probe h0 h4 --ports 64\n  espalier probe --sweep");
  command->callback([session, options, source] {
    if (options->source.empty() != options->destination.empty() ||
        (!options->is_sweep && source->empty())) {
      return Report(*session, ErrorCodeName(ErrorCode::kInvalidArgument),
                    "SOURCE and DESTINATION are required (or --sweep for all leaves)", 2);
    }
    if (!options->is_sweep) return Run(*session, *options);
    Sweep(*session, {.a = options->source,
                     .b = options->destination,
                     .ports = options->ports == 0 ? 16 : options->ports,
                     .pairs = options->pairs});
  });
}

}  // namespace espalier::cli
