// damage_study: simulates what path sets are worth where a link is dead, slow or dies: how bytes
// are dealt out, and the reactions of hosts and controller.
#include <CLI/CLI.hpp>

#include "deploy/cli/command_line/parse.h"
#include "tests/studies/damage/damage_command.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Simulate path sets where a link is dead, slow or dies: how bytes are dealt out, and "
      "reactions "
      "of hosts and controller");
  int exit_code = 0;
  espalier::offline::AddDamageOptions(app, exit_code);
  return espalier::cli::ParseAndRun(app, argc, argv, exit_code);
}
