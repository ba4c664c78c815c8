#pragma once

#include <atomic>
#include <cstdio>
#include <exception>

namespace espalier::shim {

// Prints a line on standard error for the first failure of the process.
inline void WarnOnce(const char* cause) {
  static std::atomic<bool> said = false;
  if (said.exchange(true)) return;
  std::fprintf(
      stderr, "espalier-verbs: %s; the program continues, but some of its traffic is not steered\n",
      cause);
}

// Does work for steering inside a function with a C interface that the program calls, or on the
// library's own thread. No exception may leave either, as it would end a program that works as well
// without steering. Memory and threads run out in containers with limits (memory.max, pids.max).
// Returns false if the work failed.
template <typename Work>
bool Attempt(Work&& work) noexcept {
  try {
    work();
    return true;
  } catch (const std::exception& exception) {
    WarnOnce(exception.what());
  } catch (...) {
    WarnOnce("an unknown exception");
  }
  return false;
}

}  // namespace espalier::shim
