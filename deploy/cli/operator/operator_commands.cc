#include "deploy/cli/operator/operator_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/users/local_user.h"
#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/terminal/table.h"
#include "deploy/cli/lists/advise_command.h"
#include "deploy/cli/lists/list_commands.h"
#include "deploy/cli/lists/top_command.h"
#include "deploy/cli/operator/bundle_command.h"
#include "deploy/cli/operator/context_commands.h"
#include "deploy/cli/operator/describe_command.h"
#include "deploy/cli/operator/explain_command.h"
#include "deploy/cli/operator/maintenance_commands.h"
#include "deploy/cli/operator/status_command.h"
#include "deploy/cli/operator/steering_commands.h"
#include "deploy/cli/probe/probe_command.h"
#include "deploy/cli/session/name_hints.h"
#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {
namespace {

constexpr const char* kDryRunHelp = "Print the flows that would move, and change nothing";
constexpr const char* kForceHelp =
    "Do it without confirmation, even if it cuts off flows or moves many";
constexpr const char* kReasonHelp = "Reason, for the audit log";

void AddActionOptions(CLI::App& command, const SessionPtr& session, bool can_end) {
  command.add_flag("--dry-run", session->dry_run, kDryRunHelp);
  command.add_option("--reason", session->reason,
                     "Reason, for the audit log and the list of intents");
  if (!can_end) return;
  command
      .add_option("--until", session->until,
                  "Expire the intent at this time: 30m, 2h, 3d, 2026-11-21T18:00Z or never "
                  "(default: never, or as before)")
      ->type_name("TIME");
}

// Adds "fail link ID", "fail node ID" and the like. `help` has {} for what the command acts on.
void AddAction(CLI::App& app, const SessionPtr& session, const std::string& verb,
               const std::string& help, bool can_end) {
  CLI::App* group = app.add_subcommand(verb, fmt::format(fmt::runtime(help), "link or node"));
  group->require_subcommand(1);
  for (const std::string kind : {"link", "node"}) {
    CLI::App* command = AddCommand(*group, session, kind, fmt::format(fmt::runtime(help), kind));
    const std::string example = kind == "link" ? "leaf0--spine1" : "spine1";
    command->add_option("ID", session->id, fmt::format("Id of the {} in the topology", kind))
        ->required();
    AddActionOptions(*command, session, can_end);
    command->add_flag("--force", session->force, kForceHelp);
    command->footer(fmt::format("Examples:\n  espalier {} {} {}{}", verb, kind, example,
                                can_end ? " --until 2h --reason \"new optics\" --dry-run" : ""));
    command->callback(
        [session, action = kind + "s/" + verb] { Act(*session, action, Confirmation::kIfCutOff); });
  }
}

void AddRecompute(CLI::App& app, const SessionPtr& session) {
  CLI::App* command =
      AddCommand(app, session, "recompute", "Recompute the paths of all flows from scratch");
  command->add_flag("--dry-run", session->dry_run, kDryRunHelp);
  command->add_option("--reason", session->reason, kReasonHelp);
  command
      ->add_option("--move-bytes", session->move_bytes,
                   "Upper bound on the in-flight bytes of all flows that move, such as 500M or 2Gi "
                   "(default: no limit)")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("BYTES");
  command->add_flag("--force", session->force, kForceHelp);
  command->callback([session] { Act(*session, "recompute", Confirmation::kIfCutOff); });
}

void AddReload(CLI::App& app, const SessionPtr& session) {
  CLI::App* command = AddCommand(app, session, "reload",
                                 "Make the controller read its configuration and keys again");
  command->callback([session] {
    const auto answer = Ask(*session, "POST", "/api/v1/reload");
    if (answer && !session->json) fmt::print("reloaded (see `espalier events` for what changed)\n");
  });
}

void AddRollBack(CLI::App& app, const SessionPtr& session) {
  CLI::App* command =
      AddCommand(app, session, "rollback", "Restore the intents of an earlier revision");
  command
      ->add_option("--to", session->id,
                   "Revision to restore, as `espalier audit` names it (default: the one before the "
                   "last change)")
      ->type_name("REVISION");
  command->add_flag("--dry-run", session->dry_run, kDryRunHelp);
  command->add_option("--reason", session->reason, kReasonHelp);
  command->add_flag("--force", session->force, kForceHelp);
  command->callback([session] { Act(*session, "rollback", Confirmation::kIfCutOff); });
}

// The options of `job start`.
struct JobOptions {
  std::string name = "job";
  std::string ranks;
  std::string collective = "allreduce";
  std::uint64_t bytes = 0;
  bool offload = false;
  std::string transport = "tcp";
  std::string user;  // empty: any user
};

// Reads "h0,h1,...", or a file with a JSON array of names. A job has two ranks or more, so a text
// without a comma names a file.
Result<std::vector<std::string>> ReadRanks(const std::string& text) {
  std::vector<std::string> ranks;
  if (text.find(',') != std::string::npos && !std::filesystem::is_regular_file(text)) {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      ranks.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return ranks;
  }
  const auto read = io::ReadFile(text);
  if (!read) {
    return Fail(read.error().code,
                fmt::format("--ranks: {} (give h0,h1,... or a JSON file with an array of ids)",
                            read.error().message));
  }
  const auto json = io::ParseJson(*read, text);
  if (!json) return tl::unexpected<Error>(json.error());
  if (json->kind != io::JsonValue::Kind::kArray) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: no array of ids (write [\"h0\", \"h1\", ...])", text));
  }
  for (const io::JsonValue& rank : json->items) ranks.push_back(rank.text);
  return ranks;
}

void StartJob(Session& session, const JobOptions& options) {
  const auto ranks = ReadRanks(options.ranks);
  if (!ranks) {
    return Report(session, ErrorCodeName(ranks.error().code), ranks.error().message, 2);
  }
  io::JsonWriter body;
  body.BeginObject();
  body.Key("name").String(options.name);
  body.Key("ranks").BeginArray();
  for (const std::string& rank : *ranks) body.String(rank);
  body.EndArray();
  body.Key("collective").String(options.collective);
  body.Key("bytes").Integer(static_cast<std::int64_t>(options.bytes));
  body.Key("offload").Bool(options.offload);
  body.Key("transport").String(options.transport);
  if (!options.user.empty()) body.Key("user").String(options.user);  // older controllers know none
  body.EndObject();
  const std::string target =
      fmt::format("/api/v1/jobs/start?dry_run={}&reason={}", session.dry_run ? "true" : "false",
                  UrlEncode(session.reason));
  const auto answer = Ask(session, "POST", target, true, body.Text());
  if (answer && options.user.empty()) {
    fmt::print(stderr,
               "espalier: the job's key goes to the first user of each host who asks for a rank "
               "(name its user with --user)\n");
  }
  if (answer && !session.json) {
    fmt::print("job {} {}: {} ranks\n", options.name,
               session.dry_run ? "could be started" : "started", ranks->size());
  }
}

// Refuses an empty name, too: an unset variable of a script must not stand for any user.
std::string CheckUser(const std::string& text) {
  if (IsLocalUser(text)) return "";
  return fmt::format("\"{}\" is neither a user name nor a user number", text);
}

void AddJobStart(CLI::App& group, const SessionPtr& session) {
  CLI::App* command =
      AddCommand(group, session, "start", "Start a job whose ranks run a collective on a forest");
  const auto options = std::make_shared<JobOptions>();
  command->add_option("NAME", options->name, "Name of the job")->capture_default_str();
  command
      ->add_option("--ranks", options->ranks,
                   "Compute nodes in rank order: h0,h1,... or a JSON file with an array of ids")
      ->type_name("NODES")
      ->required();
  command
      ->add_option("--collective", options->collective,
                   "Collective that the ranks run; rank 0 is the root")
      ->capture_default_str()
      ->check(CLI::IsMember({"allreduce", "allgather", "reduce-scatter", "broadcast", "reduce"}));
  command
      ->add_option("--bytes", options->bytes,
                   "Size of a typical call, such as 64Mi, from which its expected time is computed "
                   "(default: 0)")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 53U));
  command->add_flag("--offload", options->offload,
                    "Run the collective in the offload service of each host instead of in the "
                    "programs");
  command->add_option("--transport", options->transport, "Transport between ranks; verbs is RoCEv2")
      ->capture_default_str()
      ->check(CLI::IsMember({"tcp", "verbs"}));
  command
      ->add_option("--user", options->user,
                   "User, by name or number, whose programs alone receive the rank plans and the "
                   "job's key (default: the first user that asks for a rank)")
      ->type_name("USER")
      ->check(CheckUser);
  command->add_flag("--dry-run", session->dry_run,
                    "Check whether the job could start, and change nothing");
  command->add_option("--reason", session->reason,
                      "Reason, for the audit log and the list of intents");
  command->footer("Examples:\n  espalier job start train --ranks h0,h1,h2,h3 --transport verbs");
  command->callback([session, options] { StartJob(*session, *options); });
}

std::string CheckWeight(const std::string& text) {
  const bool is_whole = !text.empty() && text.size() <= 4 &&
                        text.find_first_not_of("0123456789") == std::string::npos;
  if (is_whole && std::stoi(text) >= 1 && std::stoi(text) <= 1000) return "";
  return fmt::format("\"{}\" is no whole number from 1 to 1000", text);
}

void AddWeight(CLI::App& app, const SessionPtr& session) {
  CLI::App* command =
      AddCommand(app, session, "weight", "Set a job's bandwidth weight relative to other jobs");
  const auto weight = std::make_shared<std::string>();
  command->add_option("JOB", session->id, "Job as `espalier flows` names it")->required();
  command->add_option("WEIGHT", *weight, "Integer from 1, which every job has by default, to 1000")
      ->check(CheckWeight)
      ->required();
  AddActionOptions(*command, session, true);
  command->add_flag("--force", session->force, kForceHelp);
  command->callback([session, weight] {
    WarnOfUnknownJob(*session, session->id);
    Act(*session, "jobs/weight?weight=" + UrlEncode(*weight), Confirmation::kIfCutOff);
  });
}

// The value of a policy for a number without a limit.
constexpr std::string_view kNoLimit = "9223372036854775807";

void AddPolicies(CLI::App& app, const SessionPtr& session) {
  CLI::App* group = app.add_subcommand(
      "policy", "List, set and reset policies, which override the configuration");
  group->require_subcommand(1);
  CLI::App* list = AddCommand(*group, session, "list",
                              "List every policy with its value and its configured value");
  list->callback([session] {
    auto answer = Ask(*session, "GET", "/api/v1/policies");
    if (!answer || session->json) return;
    for (io::JsonValue& row : FindMember(*answer, "policies")->items) {
      for (const char* key : {"value", "configured"}) {
        io::JsonValue* const value = FindMember(row, key);
        if (value != nullptr && value->text == kNoLimit) value->text = "no limit";
      }
    }
    PrintTable({{"POLICY", "policy"},
                {"VALUE", "value"},
                {"CONFIGURED", "configured"},
                {"SET BY", "set_by"}},
               answer->Find("policies")->items);
  });
  CLI::App* set =
      AddCommand(*group, session, "set", "Set a policy, which then overrides the configuration");
  const auto value = std::make_shared<std::string>();
  set->add_option("POLICY", session->id, "Policy as `espalier policy list` names it")->required();
  set->add_option("VALUE", *value, "Value, in the form of the configuration file")->required();
  AddActionOptions(*set, session, true);
  set->callback([session, value] { Act(*session, "policies/set?value=" + UrlEncode(*value)); });
  CLI::App* reset =
      AddCommand(*group, session, "reset", "Reset a policy to its value in the configuration");
  reset->add_option("POLICY", session->id, "Policy as `espalier policy list` names it")->required();
  AddActionOptions(*reset, session, false);
  reset->callback([session] { Act(*session, "policies/reset"); });
}

void AddJobs(CLI::App& app, const SessionPtr& session) {
  CLI::App* group =
      app.add_subcommand("job", "Start, stop and list jobs whose collective runs on a forest");
  group->require_subcommand(1);
  AddJobStart(*group, session);
  CLI::App* stop = AddCommand(*group, session, "stop", "Stop a job");
  stop->add_option("NAME", session->id, "Job as `espalier job list` names it")->required();
  stop->add_option("--reason", session->reason, kReasonHelp);
  stop->callback([session] {
    const auto answer = Ask(
        *session, "POST",
        "/api/v1/jobs/stop?id=" + UrlEncode(session->id) + "&reason=" + UrlEncode(session->reason));
    if (answer && !session->json) fmt::print("job {} stopped\n", session->id);
  });
  CLI::App* list =
      AddCommand(*group, session, "list", "List every job with its state and its forest");
  list->callback([session] {
    auto answer = Ask(*session, "GET", "/api/v1/forests");
    if (!answer || session->json) return;
    for (io::JsonValue& row : FindMember(*answer, "forests")->items) {
      for (const char* key : {"algbw_gbps", "bound_gbps"}) {  // shown as rates, in bits per second
        io::JsonValue* const value = FindMember(row, key);
        if (value == nullptr) continue;
        value->text = fmt::format("{:.0f}", 1e9 * std::strtod(value->text.c_str(), nullptr));
      }
    }
    PrintTable({{"JOB", "job"},
                {"STATUS", "status"},
                {"COLLECTIVE", "collective"},
                {"RANKS", "rank_count"},
                {"TREES", "trees_per_rank"},
                {"EDGES", "edges"},
                {"ALGBW", "algbw_gbps", CellFormat::kRate},
                {"BOUND", "bound_gbps", CellFormat::kRate},
                {"DONE", "collectives_done"},
                {"FAILED", "failures"},
                {"PROBLEM", "problem"},
                {"USER", "user"}},
               answer->Find("forests")->items);
  });
}

}  // namespace

void AddOperatorCommands(CLI::App& app, int& exit_code) {
  const auto session = std::make_shared<Session>(exit_code);
  AddStatus(app, session);
  AddListCommands(app, session);
  AddTop(app, session);
  AddAdvise(app, session);
  AddDescribe(app, session);
  AddExplain(app, session);
  AddProbe(app, session);
  AddPaths(app, session);
  AddAction(app, session, "fail", "Mark a {} as failed and reroute its flows immediately", true);
  AddAction(app, session, "restore", "Return a failed {} to service", false);
  AddAction(app, session, "drain", "Drain a {}: move its flows away at their next message", true);
  AddAction(app, session, "undrain", "Return a drained {} to service", false);
  AddRecompute(app, session);
  AddSteering(app, session);
  AddMaintenance(app, session);
  AddWeight(app, session);
  AddPolicies(app, session);
  AddJobs(app, session);
  AddRollBack(app, session);
  AddReload(app, session);
  AddBundle(app, session);
  AddContexts(app, session);
}

}  // namespace espalier::cli
