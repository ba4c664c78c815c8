#pragma once

#include <memory>

#include "agent/probe/probe_socket.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::agent {

// The host's raw sockets, watched by a loop; or a NoProbeSocket if the host cannot or should not
// probe.
struct Probing {
  std::unique_ptr<ProbeSocket> socket;
  TimerPtr watch;  // null: no probe can be sent
};
Probing OpenProbing(io::AsioEventLoop& loop, bool wanted);

}  // namespace espalier::agent
