#pragma once

namespace espalier::cli {

// From its construction on, Ctrl-C sets a flag instead of ending the program.
class Interrupt {
 public:
  Interrupt();
  bool IsRequested() const;
};

}  // namespace espalier::cli
