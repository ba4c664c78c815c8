#include "deploy/cli/forest/stage_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <string>

namespace espalier::forest {
namespace {

// Set by the signal handler; read by the one StageWatch.
volatile std::sig_atomic_t interrupted = 0;

void OnSignal(int /*signal*/) { interrupted = 1; }

}  // namespace

StageWatch::StageWatch() : line_(std::chrono::milliseconds(100), std::chrono::seconds(1)) {
  interrupted = 0;
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
}

StageWatch::~StageWatch() {
  Finish();
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

Control StageWatch::MakeControl() {
  return {.cancelled = [] { return interrupted != 0; },
          .progress = [this](std::string_view stage, double fraction) { Enter(stage, fraction); }};
}

void StageWatch::Enter(std::string_view stage, double fraction) {
  if (stage != stage_) {
    CloseStage();
    stage_ = stage;
  }
  if (line_.IsDue()) Show(fraction);
}

void StageWatch::Show(double fraction) {
  const double percent = 100 * std::clamp(fraction, 0.0, 1.0);
  if (!line_.is_on_terminal())
    return line_.Show(fmt::format("espalier: {} {:.0f} %", stage_, percent));
  constexpr int kWidth = 30;
  const auto done = static_cast<std::size_t>(percent * kWidth / 100);
  line_.Show(fmt::format("{:<16} [{:<30}] {:3.0f} %", stage_, std::string(done, '#'), percent));
}

void StageWatch::CloseStage() {
  const auto now = Clock::now();
  const double took = std::chrono::duration<double>(now - stage_begin_).count();
  stage_begin_ = now;
  if (stage_ == "bound") seconds_.bound += took;
  if (stage_ == "switch removal") seconds_.switch_removal += took;
  if (stage_ == "packing" || stage_ == "lift") seconds_.packing += took;
  if (stage_ == "height") seconds_.height += took;
  if (stage_ == "verify") seconds_.verify += took;
}

StageSeconds StageWatch::Finish() {
  CloseStage();
  stage_.clear();
  line_.Clear();
  return seconds_;
}

}  // namespace espalier::forest
