#pragma once

#include <string>
#include <vector>

#include "deploy/cli/reference/command_tree.h"

namespace espalier::cli {

struct ManPage {
  std::string file_name;  // "espalier-job-start.1"
  std::string text;       // mdoc(7)
};

// Formats one page for the tool and one for each command. `date` is like "November 21, 2026".
std::vector<ManPage> FormatManPages(const Command& root, const std::string& date);

}  // namespace espalier::cli
