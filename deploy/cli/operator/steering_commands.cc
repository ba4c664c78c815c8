#include "deploy/cli/operator/steering_commands.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/terminal/table.h"
#include "deploy/cli/session/name_hints.h"

namespace espalier::cli {
namespace {

std::string SteeringField(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* const found = object.Find(key);
  return found == nullptr ? "" : found->text;
}

void ShowSteering(Session& session) {
  const auto answer = Ask(session, "GET", "/api/v1/steering");
  if (!answer || session.json) return;
  fmt::print("{}\n", SteeringField(*answer, "summary"));
  fmt::print("{} of {} hosts are steered; {} of {} flows stay on plain ECMP\n",
             SteeringField(*answer, "hosts_steered"), SteeringField(*answer, "hosts"),
             SteeringField(*answer, "flows_unsteered"), SteeringField(*answer, "flows"));
  const std::string summary = SteeringField(*answer, "summary");
  if (summary != "steering is on" && SteeringField(*answer, "forests") != "0") {
    fmt::print(
        "{} jobs on forests keep their source ports, which their connections were opened with (end "
        "one with `espalier job stop`)\n",
        SteeringField(*answer, "forests"));
  }
  const io::JsonValue* const settings = answer->Find("settings");
  if (settings == nullptr || settings->items.empty()) return;
  PrintTable({{"SCOPE", "scope"},
              {"VALUE", "value"},
              {"BY", "actor"},
              {"SINCE", "since"},
              {"UNTIL", "until"},
              {"REASON", "reason"}},
             settings->items);
}

struct Scope {
  std::vector<std::string> hosts;
  std::vector<std::string> jobs;
  std::optional<std::uint64_t> percent;
};

std::string Joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ","));
}

void AddSwitch(CLI::App& group, const SessionPtr& session, bool on) {
  const std::string verb = on ? "on" : "off";
  CLI::App* command =
      AddCommand(group, session, verb,
                 on ? "Steer flows again" : "Return flows to plain ECMP and assign them no paths");
  const auto scope = std::make_shared<Scope>();
  command
      ->add_option("--host", scope->hosts,
                   "Only flows that these hosts send, such as h0,h1 (default: all)")
      ->type_name("HOST")
      ->delimiter(',');
  command->add_option("--job", scope->jobs, "Only flows of these jobs (default: all)")
      ->type_name("JOB")
      ->delimiter(',');
  command
      ->add_option("--percent", scope->percent,
                   on ? "Steer this percentage of the hosts and no others; a larger one only adds "
                        "hosts"
                      : "Return this percentage of the hosts to plain ECMP and steer the others")
      ->type_name("PERCENT")
      ->check(CLI::Range(0, 100));
  command->add_flag("--dry-run", session->dry_run,
                    "Print the flows that would move, and change nothing");
  command->add_option("--reason", session->reason,
                      "Reason, for the audit log and the list of intents");
  command->add_flag("--force", session->force, "Do it without confirmation");
  if (!on) {
    command
        ->add_option("--until", session->until,
                     "Steer again at this time: 30m, 2h, 3d, 2026-11-21T18:00Z or never (default: "
                     "never, or as before)")
        ->type_name("TIME");
  }
  command->footer(on ? "Examples:\n  espalier steering on --percent 10 --dry-run"
                     : "Examples:\n  espalier steering off --until 2h --reason \"switch upgrade\" "
                       "--dry-run");
  command->callback([session, scope, verb] {
    for (const std::string& job : scope->jobs) WarnOfUnknownJob(*session, job);
    std::string action = "steering/" + verb + "?";
    if (!scope->hosts.empty()) action += "host=" + UrlEncode(Joined(scope->hosts)) + "&";
    if (!scope->jobs.empty()) action += "job=" + UrlEncode(Joined(scope->jobs)) + "&";
    if (scope->percent) action += fmt::format("percent={}&", *scope->percent);
    action.pop_back();
    Act(*session, action, Confirmation::kIfCutOff);
  });
}

}  // namespace

void AddSteering(CLI::App& app, const SessionPtr& session) {
  CLI::App* group = AddCommand(
      app, session, "steering",
      "Show which flows are steered, and switch steering on or off for all or some of them");
  group->require_subcommand(0, 1);
  AddSwitch(*group, session, false);
  AddSwitch(*group, session, true);
  group->callback([session, group] {
    if (group->get_subcommands().empty()) ShowSteering(*session);
  });
}

}  // namespace espalier::cli
