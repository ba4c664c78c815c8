// espalier: the command line of operators and planners. Adds the groups of commands, and parses.
#include <CLI/CLI.hpp>

#include "controller/offline/evaluation/solver.h"
#include "deploy/cli/bench/bench_commands.h"
#include "deploy/cli/bench/program_run.h"
#include "deploy/cli/command_line/command_groups.h"
#include "deploy/cli/command_line/parse.h"
#include "deploy/cli/doctor/doctor_command.h"
#include "deploy/cli/forest/forest_commands.h"
#include "deploy/cli/job/job_advise.h"
#include "deploy/cli/lab/lab_commands.h"
#include "deploy/cli/operator/apply_command.h"
#include "deploy/cli/operator/operator_commands.h"
#include "deploy/cli/operator/report_commands.h"
#include "deploy/cli/planning/assign_commands.h"
#include "deploy/cli/planning/simulate_commands.h"
#include "deploy/cli/program/program_commands.h"
#include "deploy/cli/reference/command_tree.h"
#include "deploy/cli/reference/reference_commands.h"
#include "deploy/cli/schedule/network_commands.h"
#include "deploy/cli/schedule/schedule_commands.h"
#include "deploy/cli/setup/key_commands.h"
#include "deploy/cli/setup/store_commands.h"
#include "deploy/cli/setup/topology_commands.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Steer the elephant flows of training clusters, and plan their paths and collectives",
      "espalier");
  app.get_formatter()->column_width(40);
  app.require_subcommand(1);
  app.set_version_flag("--version", ESPALIER_VERSION);
  int exit_code = 0;
  espalier::doctor::AddDoctorCommand(app, exit_code);
  espalier::cli::AddOperatorCommands(app, exit_code);
  espalier::order::AddJobAdvise(*app.get_subcommand("job"), exit_code);
  espalier::cli::AddReportCommands(app, exit_code);
  espalier::cli::AddAssignCommand(app, exit_code);
  espalier::cli::AddSimulateCommands(app, exit_code);
  espalier::cli::AddKeyCommands(app, exit_code);
  espalier::cli::AddStoreCommands(app, exit_code);
  espalier::cli::AddTopologyCommands(app, exit_code);
  espalier::synthesis::AddNetworkCommands(*app.get_subcommand("topology"), exit_code);
  espalier::cli::AddTopologyApply(*app.get_subcommand("topology"), exit_code);
  espalier::forest::AddForestCommands(app, exit_code, espalier::offline::SolveWithCbc);
  espalier::synthesis::AddScheduleCommands(app, exit_code);
  espalier::program::AddProgramCommands(app, exit_code);
  espalier::runtime::AddProgramRunCommand(app, exit_code);
  espalier::runtime::AddBenchCommands(app, exit_code);
  espalier::lab::AddLabCommands(app, exit_code);
  espalier::cli::AddReferenceCommands(app, exit_code);
  espalier::cli::GroupCommands(app);
  espalier::cli::NameValues(app, "espalier");
  return espalier::cli::ParseAndRun(app, argc, argv, exit_code);
}
