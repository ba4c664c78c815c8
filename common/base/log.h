#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace espalier {

// Writes structured one-line logs ("event=link_down link=17 version=204") to standard error. For
// services and adapters, never for domain code or a data path. Thread-safe.
enum class LogLevel { kDebug, kInfo, kWarning, kError };

void SetLogLevel(LogLevel level);
// Errors: kInvalidArgument unless debug, info, warning or error.
Result<LogLevel> ParseLogLevel(std::string_view name);
bool LogEnabled(LogLevel level);
void LogLine(LogLevel level, std::string_view line);

// Log(LogLevel::kInfo, "event=agent_up agent={} peers={}", name, count);
template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(level)) LogLine(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace espalier
