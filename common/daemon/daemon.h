#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"

namespace espalier::io {

// What the command lines of the daemons have in common: --config FILE, --check, --version.
class Daemon {
 public:
  // `name` as in messages ("espalier-agent"); `description` and `check` are help texts.
  Daemon(std::string name, std::string description, std::string check);

  // The exit code where there is nothing to run: help was asked for, or the line is wrong.
  std::optional<int> Parse(int argc, const char* const* argv);

  const std::string& config_file() const { return config_file_; }
  bool is_check() const { return is_check_; }

  // Says on standard error what went wrong. Returns the exit code: 2 for what a file or an option
  // says, else 1.
  int ReportError(const Error& error) const;

 private:
  const std::string name_;
  const std::string description_;
  const std::string check_;
  std::string config_file_;
  bool is_check_ = false;
};

}  // namespace espalier::io
