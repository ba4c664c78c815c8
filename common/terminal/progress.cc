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

ProgressLine::ProgressLine(Clock::duration pause_on_terminal, Clock::duration pause_elsewhere,
                           Clock::time_point begin)
    : is_on_terminal_(::isatty(STDERR_FILENO) == 1),
      pause_(is_on_terminal_ ? pause_on_terminal : pause_elsewhere),
      next_(begin + kSilence) {}

bool ProgressLine::IsDue(Clock::time_point now) {
  if (now < next_) return false;
  next_ = now + pause_;
  return true;
}

void ProgressLine::Show(std::string_view text) {
  fmt::print(stderr, "{}{}{}", is_on_terminal_ ? kClearLine : "", text,
             is_on_terminal_ ? "" : "\n");
  std::fflush(stderr);
  is_open_ = is_on_terminal_;
}

void ProgressLine::Clear() {
  if (std::exchange(is_open_, false)) fmt::print(stderr, "{}", kClearLine);
}

Progress::Progress(std::string what, int total)
    : what_(std::move(what)),
      total_(total),
      line_(ProgressLine::Clock::duration(0), kBetweenLines) {}

void Progress::Next(std::string_view part) {
  ++begun_;
  if (line_.IsDue()) {
    line_.Show(fmt::format("espalier: {} {}/{}: {}", what_, begun_, total_, part));
  }
}

}  // namespace espalier::cli
