#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/probe/probe_socket.h"
#include "agent/probe/sockets/raw_probe_socket.h"
#include "agent/probe/train_socket.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::agent {

// The host's raw sockets, watched by a loop; or a NoProbeSocket and a NoTrainSocket if the host
// cannot or should not probe. Probes leave only from addresses for which `is_own` holds, over the
// interface that `interface_of` returns (RawProbeSocket).
struct Probing {
  std::unique_ptr<ProbeSocket> socket;
  TimerPtr watch;
  std::unique_ptr<TrainSocket> trains;
  TimerPtr trains_watch;
  std::vector<std::string> features;  // of an agent that can probe and test links; or none
};
Probing OpenProbing(io::AsioEventLoop& loop, bool wanted,
                    std::function<bool(const IpAddress&)> is_own,
                    RawProbeSocket::InterfaceOf interface_of);

}  // namespace espalier::agent
