#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace espalier::cli {

// How far a long command is, on standard error once a second has passed: one line that is
// rewritten on a terminal, a line every ten seconds elsewhere.
class Progress {
 public:
  Progress(std::string what, int total);
  ~Progress();  // clears the terminal's line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Another part is about to begin.
  void Next(std::string_view part);

 private:
  std::string what_;
  int total_;
  int begun_ = 0;
  bool is_terminal_;
  bool is_shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_shown_;
};

}  // namespace espalier::cli
