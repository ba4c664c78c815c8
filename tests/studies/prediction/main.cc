// prediction_study: measures prediction on many kinds of jobs: precomputed starts, their quality,
// and the errors of predictions.
#include <CLI/CLI.hpp>

#include "deploy/cli/command_line/parse.h"
#include "tests/studies/prediction/prediction_command.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Measure prediction on many kinds of jobs: precomputed starts, their quality, and the errors "
      "of "
      "predictions");
  int exit_code = 0;
  espalier::offline::AddPredictionOptions(app, exit_code);
  return espalier::cli::ParseAndRun(app, argc, argv, exit_code);
}
