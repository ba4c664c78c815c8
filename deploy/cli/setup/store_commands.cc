#include "deploy/cli/setup/store_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "common/files/command_result.h"
#include "common/files/json_writer.h"
#include "controller/store/store_tools.h"

namespace espalier::cli {
namespace {

using Summary = controller::StoreFile::Summary;

struct Arguments {
  std::string store = "/var/lib/espalier/store.db";
  std::string file;
  bool json = false;
};

int Print(const Arguments& arguments, const Result<Summary>& summary, std::string_view done) {
  if (!summary) return io::ReportError(summary.error(), io::kExitFailed);
  if (!arguments.json) {
    fmt::print("{}: schema {}, epoch {}, revision {}, {} intents, {} audit entries, {} events\n",
               done, summary->schema_version, summary->epoch, summary->revision, summary->intents,
               summary->audit_entries, summary->events);
    return 0;
  }
  io::JsonWriter json;
  json.BeginObject();
  json.Key("schema").Integer(summary->schema_version);
  json.Key("epoch").Integer(static_cast<std::int64_t>(summary->epoch));
  json.Key("revision").Integer(static_cast<std::int64_t>(summary->revision));
  json.Key("intents").Integer(summary->intents);
  json.Key("audit_entries").Integer(summary->audit_entries);
  json.Key("events").Integer(summary->events);
  json.EndObject();
  fmt::print("{}\n", json.Text());
  return 0;
}

}  // namespace

void AddStoreCommands(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* group = app.add_subcommand(
      "store",
      "Check, back up and restore the controller's store of intents, audit log and events");
  group->require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& help) {
    CLI::App* command = group->add_subcommand(name, help);
    command->add_option("--store", arguments->store, "Store file, the controller's state_file")
        ->capture_default_str();
    command->add_flag("--json", arguments->json, "Print one JSON object on standard output");
    return command;
  };
  add("check", "Check that the store is intact, and print what it holds")
      ->callback([arguments, &exit_code] {
        exit_code = Print(*arguments, controller::CheckStore(arguments->store), "intact");
      });
  CLI::App* backup = add("backup", "Copy the store to a new file, even while the controller runs");
  backup->add_option("FILE", arguments->file, "File to create")->required();
  backup->callback([arguments, &exit_code] {
    exit_code =
        Print(*arguments, controller::BackUpStore(arguments->store, arguments->file), "backed up");
  });
  CLI::App* restore =
      add("restore", "Replace the store by a backup, while the controller is stopped");
  restore->add_option("FILE", arguments->file, "Backup file to restore")->required();
  restore->callback([arguments, &exit_code] {
    exit_code =
        Print(*arguments, controller::RestoreStore(arguments->store, arguments->file), "restored");
  });
}

}  // namespace espalier::cli
