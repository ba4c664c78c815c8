#include "deploy/cli/command_line/command_groups.h"

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::cli {
namespace {

struct Group {
  const char* title;
  std::vector<std::string_view> commands;
};

const std::vector<Group>& Groups() {
  static const std::vector<Group> groups = {
      {"Commands that look",
       {"doctor",   "status",  "flows",  "jobs",   "links",   "nodes",  "agents",
        "plans",    "predict", "advise", "events", "intents", "audit",  "top",
        "describe", "explain", "probe",  "paths",  "bundle",  "context"}},
      {"Commands that act",
       {"fail", "restore", "drain", "undrain", "recompute", "steering", "maintenance", "weight",
        "policy", "job", "rollback", "reload", "report"}},
      {"Commands that plan and measure",
       {"assign", "simulate", "topology", "forest", "schedule", "program", "bench"}},
      {"Commands for keys and the store", {"keys", "token", "store"}},
      {"Commands for labs", {"lab"}},
      {"Commands for documents", {"reference"}}};
  return groups;
}

}  // namespace

void GroupCommands(CLI::App& app) {
  for (const Group& group : Groups()) {
    for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
      for (const std::string_view name : group.commands) {
        if (command->get_name() == name) command->group(group.title);
      }
    }
  }
}

}  // namespace espalier::cli
