#include "common/daemon/daemon.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

#include "common/files/command_result.h"

namespace espalier::io {

Daemon::Daemon(std::string name, std::string description, std::string check)
    : name_(std::move(name)), description_(std::move(description)), check_(std::move(check)) {}

std::optional<int> Daemon::Parse(int argc, const char* const* argv) {
  CLI::App app(description_);
  app.add_option("--config", config_file_, "Configuration file (protobuf text format)")->required();
  app.add_flag("--check", is_check_, check_);
  app.add_flag("--print", is_print_, "Print all options in force, then exit");
  app.set_version_flag("--version", ESPALIER_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitBadInput;
  }
  return std::nullopt;
}

int Daemon::ReportChecked(const std::string& about,
                          const std::vector<OptionInForce>& options) const {
  if (is_print_) {
    fmt::print("{}", PrintOptions(options));
  } else {
    fmt::print("{}: ok, {}\n", config_file_, about);
  }
  return 0;
}

int Daemon::ReportError(const Error& error) const {
  fmt::print(stderr, "{}: {}\n", name_, error.message);
  const bool is_input =
      error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kNotFound;
  return is_input ? kExitBadInput : kExitFailed;
}

}  // namespace espalier::io
