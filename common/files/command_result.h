#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace espalier::io {

// Exit codes of every command, besides 0.
constexpr int kExitFailed = 1;
constexpr int kExitBadInput = 2;  // wrong usage, or a wrong value in a file or an option

// Prints the error on standard error and returns the command's exit code.
int ReportError(const Error& error);

// Writes a command's result to a file (atomically), or to standard output if the path is empty or
// "-". Prints an error if that fails. Returns the exit code.
int WriteOutput(std::string_view text, const std::string& path);

}  // namespace espalier::io
