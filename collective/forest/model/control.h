#pragma once

#include <functional>
#include <string_view>

namespace espalier::forest {

// How the caller of long work follows and ends it. Both may be empty. They are called from the
// thread that works, at least every few milliseconds of work.
struct Control {
  // True ends the work soon, with the error kUnavailable "cancelled".
  std::function<bool()> cancelled;
  // What is being done and how much of it is done, 0 to 1: "bound", "switch removal", "packing",
  // "lift", ...
  std::function<void(std::string_view stage, double fraction)> progress;
  // How many threads may work where work can be divided. The result is the same for any number.
  int threads = 1;

  bool IsCancelled() const { return cancelled && cancelled(); }
  void Report(std::string_view stage, double fraction) const {
    if (progress) progress(stage, fraction);
  }
};

}  // namespace espalier::forest
