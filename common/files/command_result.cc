#include "common/files/command_result.h"

#include <fmt/format.h>

#include <cstdio>

#include "common/files/json.h"

namespace espalier::io {

int ReportError(const Error& error) {
  fmt::print(stderr, "espalier: {}\n", error.message);
  const bool is_input = error.code == ErrorCode::kInvalidArgument ||
                        error.code == ErrorCode::kNotFound ||
                        error.code == ErrorCode::kAlreadyExists;
  return is_input ? kExitBadInput : kExitFailed;
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
