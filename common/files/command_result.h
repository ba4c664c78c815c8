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
// The same, with an exit code of the caller's choice.
int ReportError(const Error& error, int exit_code);

// Prints {"error": {"code", "message", "remedy"}} on standard output. The remedy is what the
// message has in parentheses at its end.
void PrintErrorJson(std::string_view code, std::string_view message);

// While one exists, ReportError also does PrintErrorJson: for command lines with --json. Only the
// main thread makes one, before it runs the command.
class JsonErrors {
 public:
  JsonErrors();
  ~JsonErrors();
  JsonErrors(const JsonErrors&) = delete;
  JsonErrors& operator=(const JsonErrors&) = delete;
};

// Writes a command's result to a file (atomically), or to standard output if the path is empty or
// "-". Prints an error if that fails. Returns the exit code.
int WriteOutput(std::string_view text, const std::string& path);

}  // namespace espalier::io
