#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace espalier::cli {

// Shows the progress of a long command on standard error, once it has taken a second: on a terminal
// by rewriting one line, elsewhere by writing new lines. Thread safety: one thread.
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
  // True if it is time for another line, which the caller must then show.
  bool IsDue(Clock::time_point now = Clock::now());
  void Show(std::string_view text);
  // Clears the line, so that other output on the terminal begins on an empty one.
  void Clear();

 private:
  const bool is_on_terminal_;
  const Clock::duration pause_;
  Clock::time_point next_;
  bool is_open_ = false;  // a line is shown on the terminal
};

// Shows which part of a command has begun, and its number: every part on a terminal, elsewhere at
// most one every ten seconds.
class Progress {
 public:
  Progress(std::string what, int total);

  // Reports that another part begins.
  void Next(std::string_view part);

 private:
  std::string what_;
  int total_;
  int begun_ = 0;
  ProgressLine line_;
};

}  // namespace espalier::cli
