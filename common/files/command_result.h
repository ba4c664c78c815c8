#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace espalier::io {

// Exit codes of every command, besides 0.
constexpr int kExitFailed = 1;
constexpr int kExitBadInput = 2;  // usage, or what a file or an option says

// Says on standard error what went wrong and returns the command's exit code.
int ReportError(const Error& error);

// Writes a command's result to a file (wholly or not at all), or to standard output where the path
// is empty or "-". Returns the exit code; a failure has been complained of.
int WriteOutput(std::string_view text, const std::string& path);

}  // namespace espalier::io
