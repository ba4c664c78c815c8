#include "deploy/cli/doctor/doctor_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/address/ip_address.h"
#include "common/base/time/wall_time.h"
#include "common/terminal/table.h"
#include "deploy/cli/doctor/controller_checks.h"
#include "deploy/cli/doctor/device_checks.h"
#include "deploy/cli/doctor/host_checks.h"
#include "deploy/cli/doctor/neighbour_checks.h"
#include "deploy/cli/doctor/path_trial.h"
#include "deploy/cli/session/contexts.h"
#include "deploy/cli/session/operator_session.h"

namespace espalier::doctor {
namespace {

struct DoctorOptions {
  std::string agent = "127.0.0.1:9181";
  std::string keys = "/etc/espalier/keys";
  int process = 0;
  std::string toward;  // an address; empty: paths are not tried
};

// Whether somebody has said where the controller is, so that it must answer.
bool IsNamed(const cli::Session& session) {
  const char* const variable = std::getenv("ESPALIER_CONTROLLER");
  if (!session.controller.empty() || !session.context.empty()) return true;
  if (variable != nullptr && *variable != '\0') return true;
  const auto contexts = cli::ReadContexts();
  return contexts && !contexts->current.empty();
}

void AskController(cli::Session& session, const HostView& view, Findings& findings) {
  findings.Begin("controller", "controller");
  const auto first = cli::Send(session, "GET", "/api/v1/status", "");
  if (!first || first->status != 200) {
    const std::string why = first ? fmt::format("it answered with HTTP status {}", first->status)
                                  : first.error().message;
    if (!IsNamed(session)) {
      return findings.Skip("", "none is named, and " + why,
                           "run it on the controller's machine, or name it with --controller");
    }
    return findings.Fail("", why,
                         "systemctl status espalier-controller; check --controller and "
                         "the token");
  }
  // What else is asked is silent: a check that lacks its answer says so itself.
  session.is_silent = true;
  ControllerAnswers answers;
  if (auto status = io::ParseJson(first->body, "status")) answers.status = std::move(*status);
  if (auto events = cli::AskPages(session, "/api/v1/events", "events", /*print_json=*/false)) {
    if (io::JsonValue* const list = cli::FindMember(*events, "events")) {
      answers.events = std::move(list->items);
    }
  }
  answers.paths = cli::Ask(session, "GET", "/api/v1/path-map", /*print_json=*/false);
  // Only a host with RDMA compares its cables.
  const bool has_rdma = !RdmaInterfaces(view).empty();
  const auto topology = has_rdma ? cli::Ask(session, "GET", "/api/v1/topology", false)
                                 : std::optional<io::JsonValue>{};
  session.is_silent = false;
  CheckController(answers, findings);
  findings.Begin("host", "cabling");
  CheckCabling(view, topology.value_or(io::JsonValue{}), findings);
}

// Tries the paths to an address; some seconds.
void TryToward(const std::string& toward, Findings& findings) {
  findings.Begin("host", "path_port");
  if (toward.empty()) {
    return findings.Skip("", "no address was given to try paths to",
                         "give that of a NIC behind another leaf with --toward");
  }
  fmt::print(stderr, "espalier: trying source ports towards {} for some seconds\n", toward);
  const auto hops = TryPaths(*IpAddress::Parse(toward));
  if (!hops) return findings.Skip("", hops.error().message);
  JudgePaths(*hops, findings);
}

void Run(cli::Session& session, const DoctorOptions& options) {
  const auto view = ViewOfThisHost(options.agent, options.process);
  if (!view) {
    return cli::Report(session, ErrorCodeName(view.error().code), view.error().message, 2);
  }
  if (!options.toward.empty() && !IpAddress::Parse(options.toward)) {
    return cli::Report(session, ErrorCodeName(ErrorCode::kInvalidArgument),
                       options.toward + " is no IP address (give that of a NIC with --toward)", 2);
  }
  Findings findings;
  CheckHost(*view, findings);
  TryToward(options.toward, findings);
  AskController(session, *view, findings);
  CheckKeyFolder(options.keys, view->is_root, SystemWallTime(), findings);
  if (session.json) {
    fmt::print("{}\n", FormatJson(findings));
  } else {
    fmt::print("{}", FormatText(findings, cli::UsesColours()));
  }
  session.exit_code = findings.Count(State::kFailed) == 0 ? 0 : 1;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, int& exit_code) {
  const auto session = std::make_shared<cli::Session>(exit_code);
  CLI::App* command = cli::AddCommand(
      app, session, "doctor",
      "Check what steering needs of this host, of the fabric and of the controller, with a remedy "
      "for each thing that is amiss");
  const auto options = std::make_shared<DoctorOptions>();
  command
      ->add_option("--agent", options->agent,
                   "Address of the agent of this host: `http` of its configuration, HOST:PORT or "
                   "unix:/PATH")
      ->type_name("ADDRESS")
      ->capture_default_str();
  command
      ->add_option("--toward", options->toward,
                   "IP address of a NIC behind another leaf: some hundred packets towards it show "
                   "whether the source port chooses the path, without a controller")
      ->type_name("ADDRESS");
  command
      ->add_option("--process", options->process,
                   "Process of a job, whose environment and libraries are checked instead of those "
                   "of this shell")
      ->type_name("PID")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--keys", options->keys, "Folder of keys, if this is the controller's machine")
      ->capture_default_str();
  command->footer(
      "Examples:\n  espalier doctor\n  espalier doctor --toward 10.1.0.1\n"
      "  espalier doctor --json --process 4711\n"
      "The exit code is 1 if a check failed. A check that does not apply, or cannot know, is "
      "skipped with its reason.");
  command->callback([session, options] { Run(*session, *options); });
}

}  // namespace espalier::doctor
