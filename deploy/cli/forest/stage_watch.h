#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "collective/forest/files/forest_json.h"
#include "collective/forest/model/control.h"
#include "common/terminal/progress.h"

namespace espalier::forest {

// Follows long work for a person: progress on standard error once it has taken a second (a line
// that renews itself on a terminal, a line a second otherwise), the time of each stage, and an
// end within milliseconds after Ctrl-C (SIGINT) or SIGTERM. One at a time: it owns both signals
// while it lives.
class StageWatch {
 public:
  StageWatch();
  ~StageWatch();
  StageWatch(const StageWatch&) = delete;
  StageWatch& operator=(const StageWatch&) = delete;

  Control MakeControl();
  // Closes the last stage.
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
