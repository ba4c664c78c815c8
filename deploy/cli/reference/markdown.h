#pragma once

#include <string>

#include "deploy/cli/reference/command_tree.h"

namespace espalier::cli {

// Formats the whole reference as one Markdown page (docs/cli.md).
std::string FormatMarkdown(const Command& root);

}  // namespace espalier::cli
