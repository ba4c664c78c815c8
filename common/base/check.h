#pragma once

#include <fmt/format.h>

#include <string_view>

namespace espalier {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view detail);

}  // namespace espalier

// Checks an invariant of this program in every build: prints the values and aborts if it is broken.
// Not for input from outside.
//   ESPALIER_CHECK(load >= 0, "link={} load={}", link, load);
#define ESPALIER_CHECK(condition, ...)                                                        \
  do {                                                                                        \
    if (!(condition)) [[unlikely]] {                                                          \
      ::espalier::CheckFailed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                         \
  } while (false)
