#pragma once

#include <string>
#include <vector>

#include "deploy/cli/reference/command_tree.h"

namespace espalier::cli {

// The whole reference as one Markdown page (docs/cli.md).
std::string FormatMarkdown(const Command& root);

struct ManPage {
  std::string file_name;  // "espalier-job-start.1"
  std::string text;       // mdoc(7)
};

// One page for the tool and one for each command. date: "November 21, 2026".
std::vector<ManPage> FormatManPages(const Command& root, const std::string& date);

}  // namespace espalier::cli
