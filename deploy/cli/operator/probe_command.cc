#include "deploy/cli/operator/probe_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/terminal/table.h"

namespace espalier::cli {
namespace {

constexpr unsigned kPortsOfExport = 64;

struct ProbeOptions {
  std::string source;
  std::string destination;
  unsigned port = 0;
  unsigned ports = 0;
  std::string output = "table";
};

std::optional<io::JsonValue> AskForProbe(Session& session, const ProbeOptions& options) {
  std::string target = "/api/v1/probe?source=" + UrlEncode(options.source) +
                       "&destination=" + UrlEncode(options.destination);
  if (options.port != 0) target += fmt::format("&port={}", options.port);
  if (options.ports != 0) target += fmt::format("&ports={}", options.ports);
  return Ask(session, "POST", target);
}

void Run(Session& session, const ProbeOptions& options) {
  const auto answer = AskForProbe(session, options);
  if (!answer || session.json) return;
  PrintTable({{"PORT", "port"},
              {"STATE", "state", CellFormat::kState},
              {"VIA", "via"},
              {"NO ANSWER FROM", "silent_from"},
              {"RTT us", "rtt_us"},
              {"KNOWN", "known_via"},
              {"TRUST", "known_trust"}},
             answer->Find("ports")->items);
}

void RunExport(Session& session, const ProbeOptions& options) {
  session.json = session.json || options.output == "json";
  const auto answer = AskForProbe(session, options);
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
  CLI::App* group =
      app.add_subcommand("paths", "Tell senders that spread packets which paths there are");
  group->require_subcommand(1);
  CLI::App* command = AddCommand(
      *group, session, "export",
      "Print source ports with weights for a sender that spreads its packets over several paths; "
      "ask again after a failure (`espalier events --follow` tells)");
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
                                 "Show which path each source port takes now, by probes of a host");
  const auto options = std::make_shared<ProbeOptions>();
  command->add_option("SOURCE", options->source, "Host or NIC whose agent sends the probes")
      ->required();
  command->add_option("DESTINATION", options->destination, "Host or NIC behind another leaf")
      ->required();
  command->add_option("--port", options->port, "Source port to probe, or the first of several")
      ->type_name("PORT")
      ->check(CLI::Range(1, 65'535));
  command
      ->add_option("--ports", options->ports,
                   "Number of source ports to probe, spread over those of RoCEv2 (default: 8, or 1 "
                   "with --port)")
      ->type_name("COUNT")
      ->check(CLI::Range(1, 64));
  command->callback([session, options] { Run(*session, *options); });
}

}  // namespace espalier::cli
