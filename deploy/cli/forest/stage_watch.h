#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "collective/forest/files/forest_json.h"
#include "collective/forest/model/control.h"
#include "common/terminal/progress.h"

namespace espalier::forest {

// Reports the progress of long work, measures the time of each stage, and cancels the work within
// milliseconds after Ctrl-C (SIGINT) or SIGTERM. Progress goes to standard error after the first
// second: a line that is rewritten on a terminal, a line a second otherwise. At most one exists at
// a time, as it owns both signals while it lives.
class StageWatch {
 public:
  StageWatch();
  ~StageWatch();
  StageWatch(const StageWatch&) = delete;
  StageWatch& operator=(const StageWatch&) = delete;

  Control MakeControl();
  // Ends the last stage and returns the times of all stages.
  StageSeconds Finish();

 private:
  using Clock = std::chrono::steady_clock;

  void Enter(std::string_view stage, double fraction);
  void Show(double fraction);
  void CloseStage();

  Clock::time_point stage_begin_ = Clock::now();
  std::string stage_;
  StageSeconds seconds_;
  cli::ProgressLine line_;
};

}  // namespace espalier::forest
