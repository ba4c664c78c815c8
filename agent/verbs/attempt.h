#pragma once

#include <atomic>
#include <cstdio>
#include <exception>

namespace espalier::shim {

// A line on standard error, for the first failure of the process.
inline void WarnOnce(const char* cause) {
  static std::atomic<bool> said = false;
  if (said.exchange(true)) return;
  std::fprintf(stderr,
               "espalier-verbs: %s; the program goes on, but some of its traffic is not steered\n",
               cause);
}

// Does what steering needs inside a function that the program calls by a C interface, or on a
// thread of ours. No exception may leave either: it would end the program, which works as well
// unsteered. Memory and threads run out where a container is limited (memory.max, pids.max).
// False: it failed.
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
