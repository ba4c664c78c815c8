#include "common/files/command_result.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <utility>

#include "common/files/file.h"
#include "common/files/json_writer.h"

namespace espalier::io {

namespace {

bool json_errors = false;

// Splits "what is wrong (what to do)".
std::pair<std::string_view, std::string_view> SplitRemedy(std::string_view message) {
  const std::size_t open = message.find(" (");
  if (open == std::string_view::npos || !message.ends_with(')')) return {message, ""};
  return {message.substr(0, open), message.substr(open + 2, message.size() - open - 3)};
}

}  // namespace

JsonErrors::JsonErrors() { json_errors = true; }
JsonErrors::~JsonErrors() { json_errors = false; }

void PrintErrorJson(std::string_view code, std::string_view message) {
  const auto [what, remedy] = SplitRemedy(message);
  JsonWriter json;
  json.BeginObject().Key("error").BeginObject();
  json.Key("code").String(code);
  json.Key("message").String(what);
  json.Key("remedy").String(remedy);
  json.EndObject().EndObject();
  fmt::print("{}\n", json.Text());
}

int ReportError(const Error& error, int exit_code) {
  fmt::print(stderr, "espalier: {}\n", error.message);
  if (json_errors) PrintErrorJson(ErrorCodeName(error.code), error.message);
  return exit_code;
}

int ReportError(const Error& error) {
  const bool is_input = error.code == ErrorCode::kInvalidArgument ||
                        error.code == ErrorCode::kNotFound ||
                        error.code == ErrorCode::kAlreadyExists;
  return ReportError(error, is_input ? kExitBadInput : kExitFailed);
}

int WriteOutput(std::string_view text, const std::string& path) {
  if (path.empty() || path == "-") {
    const bool written =
        std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    return written ? 0 : ReportError({ErrorCode::kInternal, "cannot write to standard output"});
  }
  const auto written = WriteFileDurably(path, text);
  return written ? 0 : ReportError({ErrorCode::kInternal, written.error().message});
}

}  // namespace espalier::io
