#include "deploy/cli/lab/rdma_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/files/command_result.h"

namespace espalier::lab {

int ExitCodeOf(const Result<void>& result) {
  if (result) return 0;
  const bool is_input = result.error().code == ErrorCode::kInvalidArgument;
  return io::ReportError(result.error(), is_input ? io::kExitBadInput : io::kExitFailed);
}

namespace {

struct RdmaArguments {
  std::string name = "lab";
  std::string host;  // of the lab; empty: a machine with a fabric of its own
  bool no_fabric = false;
  int time_limit_seconds = 300;
  std::vector<std::string> argv;
};

Result<void> Rdma(const RdmaArguments& arguments) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path start =
      self.parent_path().parent_path() / "share/espalier/rdma-machine/start";
  std::vector<std::string> argv = {start, "--time-limit",
                                   fmt::format("{}", arguments.time_limit_seconds)};
  if (arguments.no_fabric) argv.emplace_back("--no-fabric");
  const auto add_program = [&] {
    argv.emplace_back("--");
    argv.insert(argv.end(), arguments.argv.begin(), arguments.argv.end());
  };
  if (arguments.host.empty()) {
    add_program();
    std::fflush(nullptr);
    return tl::unexpected(ExecCommand({.argv = std::move(argv)}));
  }
  const Result<Lab> lab = Lab::Find(arguments.name);
  if (!lab) return tl::unexpected(lab.error());
  const LabNode* const node = lab->layout().FindNode(arguments.host);
  if (node == nullptr || node->role != Role::kHost) {
    return espalier::Fail(ErrorCode::kNotFound,
                          fmt::format("lab '{}' has no host '{}' (h0..h{})", arguments.name,
                                      arguments.host, lab->layout().HostCount() - 1));
  }
  if (lab->layout().options().rails > 1) {
    return espalier::Fail(
        ErrorCode::kUnsupported,
        fmt::format("lab '{}' has hosts with several NICs, and the machine has one (use a lab "
                    "without --rails)",
                    arguments.name));
  }
  // Fetch outside of the lab. If that fails, fetch again as this process, so that its output shows.
  const Command fetch = {.argv = {start, "--fetch"}};
  const Result<CommandOutput> fetched = RunCommand(fetch);
  if (!fetched || fetched->exit_code != 0) return tl::unexpected(ExecCommand(fetch));
  for (const char* interface : {"eth0", "mgmt0"}) argv.insert(argv.end(), {"--take", interface});
  add_program();
  const Result<Command> command = lab->MakeCommand(arguments.host, std::move(argv));
  if (!command) return tl::unexpected(command.error());
  std::fflush(nullptr);
  return tl::unexpected(ExecCommand(*command));
}

}  // namespace

void AddRdmaCommand(CLI::App& lab, int& exit_code) {
  CLI::App* rdma = lab.add_subcommand(
      "rdma",
      "Run a program in an emulated machine with soft RoCE, with the exit code of the program");
  const auto arguments = std::make_shared<RdmaArguments>();
  rdma->add_option("COMMAND", arguments->argv, "Program and, after --, its arguments")->required();
  CLI::Option* const host =
      rdma->add_option("--host", arguments->host,
                       "Host of a lab, such as h0, whose place the machine takes until the program "
                       "ends, with its addresses and the device rxe0")
          ->type_name("HOST");
  rdma->add_option("--name", arguments->name, "Name of the lab")
      ->type_name("NAME")
      ->needs(host)
      ->capture_default_str();
  rdma->add_flag("--no-fabric", arguments->no_fabric,
                 "Start the machine without hosts and switches")
      ->excludes(host);
  rdma->add_option("--time-limit", arguments->time_limit_seconds,
                   "Time in seconds after which the machine is stopped")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(1, 86'400));
  rdma->footer(
      "The machine has the files of this one, read-only, and hosts h0 to h3 with devices rxe0 to\n"
      "rxe3 on two leaves and four spines. The exit code is 77 if the machine cannot run here.\n\n"
      "Examples:\n  espalier lab rdma ibv_devices\n  espalier lab rdma --host h0 ibv_devices");
  rdma->callback([arguments, &exit_code] { exit_code = ExitCodeOf(Rdma(*arguments)); });
}

}  // namespace espalier::lab
