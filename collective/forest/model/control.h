#pragma once

#include <functional>
#include <string_view>

namespace espalier::forest {

// Lets the caller of long work follow and end it. Both functions may be empty. They are called from
// the working thread, at least every few milliseconds of work.
struct Control {
  // Returning true ends the work soon with the error kUnavailable "cancelled".
  std::function<bool()> cancelled;
  // The current stage and how much of it is done, 0 to 1: "bound", "switch removal", "packing",
  // "lift", ...
  std::function<void(std::string_view stage, double fraction)> progress;
  // The number of threads for work that can be divided. The result is the same for any number.
  int threads = 1;

  bool IsCancelled() const { return cancelled && cancelled(); }
  void Report(std::string_view stage, double fraction) const {
    if (progress) progress(stage, fraction);
  }
};

}  // namespace espalier::forest
