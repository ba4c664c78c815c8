#pragma once

#include <memory>

#include "agent/probe/probe_socket.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::agent {

// The host's raw sockets, in a loop; or a stand-in where it has or wants none.
struct Probing {
  std::unique_ptr<ProbeSocket> socket;
  TimerPtr watch;  // none: no probe can be sent
};
Probing OpenProbing(io::AsioEventLoop& loop, bool wanted);

}  // namespace espalier::agent
