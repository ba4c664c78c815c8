#include "common/terminal/interrupt.h"

#include <csignal>

namespace espalier::cli {
namespace {

volatile std::sig_atomic_t g_is_interrupted = 0;

}  // namespace

Interrupt::Interrupt() {
  std::signal(SIGINT, [](int) { g_is_interrupted = 1; });
}

bool Interrupt::IsRequested() const { return g_is_interrupted != 0; }

}  // namespace espalier::cli
