// packets_study: replays an assignment or a simulation packet by packet, with the models of ns-3.
#include <CLI/CLI.hpp>

#include "deploy/cli/command_line/parse.h"
#include "tests/studies/packets/packets_command.h"

int main(int argc, char** argv) {
  CLI::App app("Replay an assignment or a simulation packet by packet, with the models of ns-3");
  int exit_code = 0;
  espalier::offline::AddPacketsOptions(app, exit_code);
  return espalier::cli::ParseAndRun(app, argc, argv, exit_code);
}
