#include "deploy/cli/operator/maintenance_commands.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "common/terminal/table.h"

namespace espalier::cli {
namespace {

void ListWindows(Session& session) {
  const auto answer = Ask(session, "GET", "/api/v1/maintenance");
  const io::JsonValue* const windows = answer ? answer->Find("windows") : nullptr;
  if (windows == nullptr || session.json) return;
  if (windows->items.empty()) {
    fmt::print("no maintenance windows (add one with `espalier maintenance add`)\n");
    return;
  }
  PrintTable({{"WINDOW", "window"},
              {"STATE", "state"},
              {"KIND", "kind"},
              {"ID", "id"},
              {"FROM", "from"},
              {"UNTIL", "until"},
              {"BY", "actor"},
              {"REASON", "reason"}},
             windows->items);
}

void AddAdd(CLI::App& group, const SessionPtr& session) {
  CLI::App* add = group.add_subcommand("add", "Plan to drain a link or node for some time");
  add->require_subcommand(1);
  for (const std::string kind : {"link", "node"}) {
    CLI::App* command =
        AddCommand(*add, session, kind,
                   fmt::format("Plan to drain a {}, which returns by itself at the end", kind));
    const auto from = std::make_shared<std::string>();
    command->add_option("ID", session->id, fmt::format("Id of the {} in the topology", kind))
        ->required();
    command
        ->add_option("--from", *from,
                     "Drain at this time: 30m, 2h, 3d or 2026-11-21T18:00Z (default: now)")
        ->type_name("TIME");
    command
        ->add_option("--until", session->until,
                     "Return to service at this time, in the same forms, counted from now")
        ->type_name("TIME")
        ->required();
    command->add_option("--reason", session->reason,
                        "Reason, for the audit log and the list of windows");
    command->add_flag("--dry-run", session->dry_run,
                      "Print the flows that would move if the window began now, and add nothing");
    command->add_flag("--force", session->force,
                      "Add it without confirmation, and begin it even if that cuts off flows");
    command->footer(
        fmt::format("Examples:\n  espalier maintenance add {} {} --from 2h --until 4h --dry-run",
                    kind, kind == "link" ? "leaf0--spine1" : "spine1"));
    command->callback([session, kind, from] {
      std::string action = "maintenance/add?kind=" + kind;
      if (!from->empty()) action += "&from=" + UrlEncode(*from);
      Act(*session, action, Confirmation::kIfCutOff);
    });
  }
}

void AddCancel(CLI::App& group, const SessionPtr& session) {
  CLI::App* command =
      AddCommand(group, session, "cancel", "Remove a maintenance window, also while it is active");
  command->add_option("WINDOW", session->id, "Window as `espalier maintenance` names it")
      ->required();
  command->add_option("--reason", session->reason, "Reason, for the audit log");
  command->add_flag("--dry-run", session->dry_run,
                    "Print the flows that would move, and change nothing");
  command->add_flag("--force", session->force, "Do it without confirmation");
  command->callback([session] { Act(*session, "maintenance/cancel", Confirmation::kIfCutOff); });
}

}  // namespace

void AddMaintenance(CLI::App& app, const SessionPtr& session) {
  CLI::App* group = AddCommand(app, session, "maintenance",
                               "List, add and cancel maintenance windows, which drain links and "
                               "nodes for some time");
  group->require_subcommand(0, 1);
  CLI::App* list = AddCommand(*group, session, "list", "List maintenance windows");
  list->callback([session] { ListWindows(*session); });
  AddAdd(*group, session);
  AddCancel(*group, session);
  group->callback([session, group] {
    if (group->get_subcommands().empty()) ListWindows(*session);
  });
}

}  // namespace espalier::cli
