#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace espalier::cli {

// How far a long command is: one line on standard error, from when it has taken a second. On a
// terminal the line is rewritten, elsewhere each is a line of its own. Thread safety: one thread.
class ProgressLine {
 public:
  using Clock = std::chrono::steady_clock;

  // The least time between two lines, on a terminal and elsewhere.
  ProgressLine(Clock::duration pause_on_terminal, Clock::duration pause_elsewhere,
               Clock::time_point begin = Clock::now());
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool is_on_terminal() const { return is_on_terminal_; }
  // Whether it is time for another line; if so, the caller shows one.
  bool IsDue(Clock::time_point now = Clock::now());
  void Show(std::string_view text);
  // What follows on the terminal begins on an empty line.
  void Clear();

 private:
  const bool is_on_terminal_;
  const Clock::duration pause_;
  Clock::time_point next_;
  bool is_open_ = false;  // there is a line on the terminal
};

// How many of the parts of a command have begun, and which: on a terminal each, elsewhere one
// every ten seconds.
class Progress {
 public:
  Progress(std::string what, int total);

  // Another part is about to begin.
  void Next(std::string_view part);

 private:
  std::string what_;
  int total_;
  int begun_ = 0;
  ProgressLine line_;
};

}  // namespace espalier::cli
