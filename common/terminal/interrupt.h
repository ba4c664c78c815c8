#pragma once

namespace espalier::cli {

// From its making on, Ctrl-C is noted instead of ending the program.
class Interrupt {
 public:
  Interrupt();
  bool IsRequested() const;
};

}  // namespace espalier::cli
