#pragma once

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace espalier::cli {

struct Outcome {
  int code = 0;
  std::string output;
  std::string errors;
};

// Runs a command line of a group of commands ("topology check FILE"), as main does.
inline Outcome RunCommand(const std::function<void(CLI::App& app, int& exit_code)>& add_commands,
                          const std::string& arguments) {
  CLI::App app;
  Outcome outcome;
  add_commands(app, outcome.code);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    outcome.code = app.exit(error) == 0 ? 0 : 2;
  }
  outcome.output = testing::internal::GetCapturedStdout();
  outcome.errors = testing::internal::GetCapturedStderr();
  return outcome;
}

}  // namespace espalier::cli
