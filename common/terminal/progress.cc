#include "common/terminal/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace espalier::cli {
namespace {

constexpr auto kSilence = std::chrono::seconds(1);
constexpr auto kBetweenLines = std::chrono::seconds(10);
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

Progress::Progress(std::string what, int total)
    : what_(std::move(what)),
      total_(total),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (is_terminal_ && is_shown_) fmt::print(stderr, "{}", kClearLine);
}

void Progress::Next(std::string_view part) {
  ++begun_;
  const auto now = std::chrono::steady_clock::now();
  if (now - start_ < kSilence) return;
  if (!is_terminal_ && is_shown_ && now - last_shown_ < kBetweenLines) return;
  last_shown_ = now;
  is_shown_ = true;
  fmt::print(stderr, "{}espalier: {} {}/{}: {}{}", is_terminal_ ? kClearLine : "", what_, begun_,
             total_, part, is_terminal_ ? "" : "\n");
  std::fflush(stderr);
}

}  // namespace espalier::cli
