#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/daemon/config_file.h"

namespace espalier::io {

// The command line that all daemons share: --config FILE, --check, --print, --version.
class Daemon {
 public:
  // `name` begins messages ("espalier-agent"); `description` and `check` are help texts.
  Daemon(std::string name, std::string description, std::string check);

  // Returns an exit code if the daemon must not run: after help or version, or for a wrong option.
  std::optional<int> Parse(int argc, const char* const* argv);

  const std::string& config_file() const { return config_file_; }
  // Whether the daemon must check its configuration, call ReportChecked and exit.
  bool is_check() const { return is_check_ || is_print_; }

  // Prints that the configuration is sound and what it is about ("4 nodes"), or with --print all
  // its options in force, as a file would set them. Returns the exit code, 0.
  int ReportChecked(const std::string& about, const std::vector<OptionInForce>& options) const;

  // Prints the error on standard error. Returns the exit code: 2 for an error in a file or an
  // option, else 1.
  int ReportError(const Error& error) const;

 private:
  const std::string name_;
  const std::string description_;
  const std::string check_;
  std::string config_file_;
  bool is_check_ = false;
  bool is_print_ = false;
};

}  // namespace espalier::io
