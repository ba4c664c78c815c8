#include "deploy/cli/operator/probe_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "common/files/json.h"
#include "common/terminal/table.h"

namespace espalier::cli {
namespace {

struct ProbeOptions {
  std::string source;
  std::string destination;
  unsigned port = 0;
  unsigned ports = 0;
};

void Run(Session& session, const ProbeOptions& options) {
  std::string target = "/api/v1/probe?source=" + UrlEncode(options.source) +
                       "&destination=" + UrlEncode(options.destination);
  if (options.port != 0) target += fmt::format("&port={}", options.port);
  if (options.ports != 0) target += fmt::format("&ports={}", options.ports);
  const auto answer = Ask(session, "POST", target);
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

}  // namespace

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
