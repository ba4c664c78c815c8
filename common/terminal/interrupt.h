#pragma once

#include <chrono>

namespace espalier::cli {

// From its construction on, Ctrl-C sets a flag instead of ending the program.
class Interrupt {
 public:
  Interrupt();
  bool IsRequested() const;
  // Sleeps for this time, or until Ctrl-C, or until the program that reads standard output has
  // closed its pipe. False: Ctrl-C, or nobody reads any more.
  bool Wait(std::chrono::milliseconds time) const;
};

}  // namespace espalier::cli
