#include "deploy/cli/setup/key_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files/command_result.h"
#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/files/topology_file.h"
#include "common/identity/key_folder.h"
#include "common/terminal/closest_name.h"
#include "common/terminal/table.h"

namespace espalier::cli {
namespace {

using identity::KeyFolder;
using io::ReportError;

struct Arguments {
  std::string folder = "/etc/espalier/keys";
  std::vector<std::string> names;
  std::string topology;
  std::string overlap = "+1d";
  bool controller = false;
  bool finish = false;
  bool json = false;
  std::string role;
  std::string until;
};
using ArgumentsPtr = std::shared_ptr<Arguments>;

// What a command does with the open folder. An error ends the command.
using Command = std::function<Result<void>(KeyFolder& folder, const Arguments& arguments)>;

enum class MissingFolder { kIsMade, kIsAnError };

int RunOn(const Arguments& arguments, const Command& command, MissingFolder missing) {
  std::error_code ignored;
  if (missing == MissingFolder::kIsAnError &&
      !std::filesystem::is_directory(arguments.folder, ignored)) {
    return ReportError({ErrorCode::kNotFound,
                        fmt::format("{}: there is no such folder (name the controller's key_folder "
                                    "with --keys; `espalier keys make` makes one)",
                                    arguments.folder)});
  }
  Result<KeyFolder> folder = KeyFolder::Open(arguments.folder);
  if (!folder) return ReportError(folder.error());
  const Result<void> done = command(*folder, arguments);
  if (done) return 0;
  const int code = ReportError(done.error());
  return done.error().code == ErrorCode::kAlreadyExists ? io::kExitFailed : code;
}

// Returns the agents of a topology: the hosts of its NICs and of its compute nodes.
Result<std::vector<std::string>> HostsOf(const std::string& topology_file) {
  const Result<fabric::Topology> topology = io::ReadTopologyFile(topology_file);
  if (!topology) return tl::unexpected<Error>(topology.error());
  std::set<std::string> hosts;
  for (const fabric::Node& node : topology->nodes()) {
    if (node.kind == fabric::NodeKind::kSwitch) continue;
    hosts.insert(fabric::HostOf(node));
  }
  return std::vector<std::string>(hosts.begin(), hosts.end());
}

// Prints what a command made or revoked: a line for each, or {"KEY": [...], "reload": true} for a
// controller that must read the folder again.
void PrintChange(const Arguments& arguments, std::string_view key,
                 const std::vector<std::string>& items, bool reload) {
  if (!arguments.json) {
    for (const std::string& item : items) fmt::print("{}\n", item);
    return;
  }
  io::JsonWriter json;
  json.BeginObject().Key(key).BeginArray();
  for (const std::string& item : items) json.String(item);
  json.EndArray().Key("reload").Bool(reload).EndObject();
  fmt::print("{}\n", json.Text());
}

void TellToReload() {
  fmt::print(stderr,
             "reload the controller for this to take effect (espalier reload, or systemctl reload "
             "espalier-controller)\n");
}

Result<void> MakeKeys(KeyFolder& folder, const Arguments& arguments) {
  std::vector<std::string> names = arguments.names;
  if (!arguments.topology.empty()) {
    Result<std::vector<std::string>> hosts = HostsOf(arguments.topology);
    if (!hosts) return Propagate(hosts);
    for (const std::string& name : names) {
      if (std::ranges::find(*hosts, name) != hosts->end()) continue;
      const std::string meant = ClosestName(name, *hosts);
      fmt::print(
          stderr, "warning: {} is no host of {}, so that the controller refuses its agent{}\n",
          name, arguments.topology, meant.empty() ? "" : fmt::format(" (did you mean {}?)", meant));
    }
    for (std::string& host : *hosts) {
      if (!folder.ring().HasGoodKey(host, SystemWallTime())) names.push_back(std::move(host));
    }
  }
  Result<void> made = folder.MakeController(SystemWallTime());
  std::vector<std::string> shown;
  if (made) {
    shown.push_back(folder.PathOf("controller.key"));
  } else if (made.error().code != ErrorCode::kAlreadyExists || names.empty()) {
    return made;
  }
  Result<std::vector<std::string>> files = folder.MakeAgents(names, SystemWallTime());
  if (!files) {
    if (made && !arguments.json) PrintChange(arguments, "files", shown, false);
    return Propagate(files);
  }
  shown.insert(shown.end(), files->begin(), files->end());
  const bool reload = !made && !files->empty();
  PrintChange(arguments, "files", shown, reload);
  if (reload) TellToReload();
  return {};
}

Result<void> RotateController(KeyFolder& folder, const Arguments& arguments) {
  if (!arguments.finish) {
    Result<void> prepared = folder.PrepareController(SystemWallTime());
    if (!prepared) return prepared;
    PrintChange(arguments, "files", {folder.PathOf("controller.pub")}, false);
    fmt::print(stderr,
               "copy controller.pub to all agents and reload them, then run: espalier keys rotate "
               "--controller --finish\n");
    return {};
  }
  Result<void> finished = folder.FinishController();
  if (!finished) return finished;
  if (arguments.json) PrintChange(arguments, "files", {}, false);
  fmt::print(stderr, "restart the controller; agents accept its new key without a restart\n");
  return finished;
}

Result<void> RotateKeys(KeyFolder& folder, const Arguments& arguments) {
  if (arguments.controller) return RotateController(folder, arguments);
  const WallTime now = SystemWallTime();
  const Result<WallTime> old_until = ParseWallTime(arguments.overlap, now);
  if (!old_until) return tl::unexpected<Error>(old_until.error());
  if (arguments.names.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "nothing to rotate (write names of agents, or --controller)");
  }
  std::vector<std::string> files;
  for (const std::string& name : arguments.names) {
    Result<std::string> file = folder.RotateAgent(name, *old_until, now);
    if (!file) {
      if (!arguments.json) PrintChange(arguments, "files", files, true);
      return Propagate(file);
    }
    files.push_back(std::move(*file));
  }
  PrintChange(arguments, "files", files, true);
  TellToReload();
  return {};
}

Result<void> RevokeKeys(KeyFolder& folder, const Arguments& arguments) {
  for (const std::string& name : arguments.names) {
    if (Result<void> revoked = folder.RevokeAgent(name, SystemWallTime()); !revoked) return revoked;
  }
  if (arguments.json) PrintChange(arguments, "revoked", arguments.names, true);
  TellToReload();
  return {};
}

std::string StateOf(const identity::AgentKey& key, WallTime now) {
  if (key.revoked) return "revoked";
  if (!key.IsGood(now)) return "replaced";
  return key.until ? "until " + FormatWallTime(*key.until) : "good";
}

Result<void> ListKeys(KeyFolder& folder, const Arguments& arguments) {
  const WallTime now = SystemWallTime();
  io::JsonWriter json;
  json.BeginObject().Key("keys").BeginArray();
  std::vector<io::JsonValue> rows;
  for (const identity::AgentKey& key : folder.ring().keys()) {
    rows.push_back(MakeRow({{"name", key.name},
                            {"key", key.public_key},
                            {"made", FormatWallTime(key.made)},
                            {"state", StateOf(key, now)}}));
    json.BeginObject();
    json.Key("name").String(key.name);
    json.Key("public_key").String(key.public_key);
    json.Key("made").String(FormatWallTime(key.made));
    json.Key("until").String(key.until ? FormatWallTime(*key.until) : "");
    json.Key("revoked").String(key.revoked ? FormatWallTime(*key.revoked) : "");
    json.Key("good").Bool(key.IsGood(now));
    json.EndObject();
  }
  json.EndArray().EndObject();
  if (arguments.json) {
    fmt::print("{}\n", json.Text());
  } else {
    PrintTable({{"AGENT", "name"}, {"PUBLIC KEY", "key"}, {"MADE", "made"}, {"STATE", "state"}},
               rows);
  }
  return {};
}

Result<void> MakeToken(KeyFolder& folder, const Arguments& arguments) {
  const WallTime now = SystemWallTime();
  const Result<identity::Role> role = identity::ParseRole(arguments.role);
  if (!role) return tl::unexpected<Error>(role.error());
  std::optional<WallTime> until;
  if (!arguments.until.empty()) {
    const Result<WallTime> end = ParseWallTime(arguments.until, now);
    if (!end) return tl::unexpected<Error>(end.error());
    until = *end;
  }
  Result<std::string> token = folder.MakeToken(arguments.names.front(), *role, until, now);
  if (!token) return Propagate(token);
  if (arguments.json) {
    io::JsonWriter json;
    json.BeginObject().Key("token").String(*token).Key("name").String(arguments.names.front());
    json.Key("role").String(arguments.role);
    json.Key("until").String(until ? FormatWallTime(*until) : "").Key("reload").Bool(true);
    json.EndObject();
    fmt::print("{}\n", json.Text());
  } else {
    fmt::print("{}\n", *token);
  }
  fmt::print(stderr, "store the token: it is not shown again\n");
  TellToReload();
  return {};
}

Result<void> RevokeToken(KeyFolder& folder, const Arguments& arguments) {
  Result<void> revoked = folder.RevokeToken(arguments.names.front());
  if (!revoked) return revoked;
  if (arguments.json) PrintChange(arguments, "revoked", arguments.names, true);
  TellToReload();
  return {};
}

Result<void> ListTokens(KeyFolder& folder, const Arguments& arguments) {
  io::JsonWriter json;
  json.BeginObject().Key("tokens").BeginArray();
  std::vector<io::JsonValue> rows;
  for (const identity::AccessToken& token : folder.tokens().tokens()) {
    const std::string made = FormatWallTime(token.made);
    const std::string until = token.until ? FormatWallTime(*token.until) : "";
    const std::string role(identity::RoleName(token.role));
    rows.push_back(
        MakeRow({{"name", token.name}, {"role", role}, {"made", made}, {"until", until}}));
    json.BeginObject();
    json.Key("name").String(token.name);
    json.Key("role").String(role);
    json.Key("made").String(made);
    json.Key("until").String(until);
    json.EndObject();
  }
  json.EndArray().EndObject();
  if (arguments.json) {
    fmt::print("{}\n", json.Text());
  } else {
    PrintTable({{"HOLDER", "name"}, {"ROLE", "role"}, {"MADE", "made"}, {"UNTIL", "until"}}, rows);
  }
  return {};
}

class Group {
 public:
  Group(CLI::App& app, int& exit_code, const std::string& name, const std::string& help)
      : group_(app.add_subcommand(name, help)),
        exit_code_(exit_code),
        arguments_(std::make_shared<Arguments>()) {
    group_->require_subcommand(1);
  }

  // A command whose name is "make" also makes the folder.
  CLI::App* Add(const std::string& name, const std::string& help, Command command) {
    CLI::App* added = group_->add_subcommand(name, help);
    added->add_option("--keys", arguments_->folder, "Folder of keys, the controller's key_folder")
        ->capture_default_str();
    added->add_flag("--json", arguments_->json, "Print one JSON object on standard output");
    const MissingFolder missing =
        name == "make" ? MissingFolder::kIsMade : MissingFolder::kIsAnError;
    added->callback([arguments = arguments_, command = std::move(command), &code = exit_code_,
                     missing] { code = RunOn(*arguments, command, missing); });
    return added;
  }
  Arguments& arguments() { return *arguments_; }

 private:
  CLI::App* group_;
  int& exit_code_;
  ArgumentsPtr arguments_;
};

void AddKeys(CLI::App& app, int& exit_code) {
  Group keys(app, exit_code, "keys",
             "Make, rotate, revoke and list the keys of controller and agents");
  Arguments& arguments = keys.arguments();
  CLI::App* make = keys.Add(
      "make", "Make a key for each agent, and the controller's key if it has none", MakeKeys);
  make->add_option("AGENT", arguments.names,
                   "Names of agents, which are the names of hosts in the topology");
  make->add_option("--topology", arguments.topology,
                   "Topology file: make keys for all of its hosts that have none");
  make->footer(
      "Examples:\n  espalier keys make h0 h1\n  espalier keys make --topology topology.json");
  CLI::App* rotate =
      keys.Add("rotate", "Make a new key, and keep the old one valid for a while", RotateKeys);
  rotate->add_option("AGENT", arguments.names, "Names of agents");
  rotate
      ->add_option("--overlap", arguments.overlap,
                   "Time until which the old key stays valid: +1d, +6h or 2026-11-21T18:00Z")
      ->type_name("TIME")
      ->capture_default_str();
  rotate->add_flag("--controller", arguments.controller,
                   "Rotate the controller's key: make the next key, for agents to learn");
  rotate->add_flag("--finish", arguments.finish,
                   "Finish --controller: the next key, which all agents know, becomes the "
                   "controller's");
  rotate->footer(
      "Examples:\n  espalier keys rotate h0 --overlap +1d\n  espalier keys rotate --controller\n"
      "  espalier keys rotate --controller --finish");
  keys.Add("revoke", "Revoke the keys of agents", RevokeKeys)
      ->add_option("AGENT", arguments.names, "Names of agents")
      ->required();
  keys.Add("list", "List the keys of all agents", ListKeys);
}

void AddTokens(CLI::App& app, int& exit_code) {
  Group tokens(app, exit_code, "token",
               "Make, revoke and list the access tokens of the controller's HTTP API");
  Arguments& arguments = tokens.arguments();
  CLI::App* make = tokens.Add("make", "Make an access token and print it", MakeToken);
  make->add_option("NAME", arguments.names, "Name of the holder, for the audit log")
      ->expected(1)
      ->required();
  make->add_option("--role", arguments.role, "Role of the holder: viewer, feed, operator or admin")
      ->type_name("ROLE")
      ->required();
  make->add_option("--until", arguments.until,
                   "Time at which the token expires: +90d or 2027-01-01T00:00Z (default: never)")
      ->type_name("TIME");
  make->footer("Examples:\n  espalier token make alice --role operator --until +90d");
  tokens.Add("revoke", "Revoke an access token", RevokeToken)
      ->add_option("NAME", arguments.names, "Name of the holder")
      ->expected(1)
      ->required();
  tokens.Add("list", "List the holders of access tokens", ListTokens);
}

}  // namespace

void AddKeyCommands(CLI::App& app, int& exit_code) {
  AddKeys(app, exit_code);
  AddTokens(app, exit_code);
}

}  // namespace espalier::cli
