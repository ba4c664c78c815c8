#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"

namespace espalier::io {

// The command line that all daemons share: --config FILE, --check, --version.
class Daemon {
 public:
  // `name` begins messages ("espalier-agent"); `description` and `check` are help texts.
  Daemon(std::string name, std::string description, std::string check);

  // Returns an exit code if the daemon must not run: after help or version, or for a wrong option.
  std::optional<int> Parse(int argc, const char* const* argv);

  const std::string& config_file() const { return config_file_; }
  bool is_check() const { return is_check_; }

  // Prints the error on standard error. Returns the exit code: 2 for an error in a file or an
  // option, else 1.
  int ReportError(const Error& error) const;

 private:
  const std::string name_;
  const std::string description_;
  const std::string check_;
  std::string config_file_;
  bool is_check_ = false;
};

}  // namespace espalier::io
