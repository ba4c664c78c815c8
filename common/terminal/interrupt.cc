#include "common/terminal/interrupt.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

namespace espalier::cli {
namespace {

volatile std::sig_atomic_t g_is_interrupted = 0;

// Whether standard output is a pipe that nobody reads. Without this, a command that has nothing to
// print would not notice.
bool HasLostReader() {
  pollfd out{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

}  // namespace

Interrupt::Interrupt() {
  std::signal(SIGINT, [](int) { g_is_interrupted = 1; });
}

bool Interrupt::IsRequested() const { return g_is_interrupted != 0; }

bool Interrupt::Wait(std::chrono::milliseconds time) const {
  constexpr std::chrono::milliseconds kStep{50};
  for (; time.count() > 0 && !IsRequested(); time -= kStep) {
    if (HasLostReader()) return false;
    std::this_thread::sleep_for(std::min(time, kStep));
  }
  return !IsRequested();
}

}  // namespace espalier::cli
