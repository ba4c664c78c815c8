#pragma once

#include <chrono>

namespace espalier::cli {

// From its construction on, Ctrl-C sets a flag instead of ending the program.
class Interrupt {
 public:
  Interrupt();
  bool IsRequested() const;
  // Sleeps for this time, or until Ctrl-C. False: Ctrl-C.
  bool Wait(std::chrono::milliseconds time) const;
};

}  // namespace espalier::cli
