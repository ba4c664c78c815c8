#include "agent/probe/probing.h"

#include <utility>

#include "agent/probe/no_probe_socket.h"
#include "agent/probe/raw_probe_socket.h"
#include "common/base/log.h"

namespace espalier::agent {

Probing OpenProbing(io::AsioEventLoop& loop, bool wanted) {
  if (!wanted) return {std::make_unique<NoProbeSocket>(), nullptr};
  Result<std::unique_ptr<RawProbeSocket>> raw = RawProbeSocket::Open();
  if (!raw) {
    Log(LogLevel::kWarning, "event=no_probing cause=\"{}\"", raw.error().message);
    return {std::make_unique<NoProbeSocket>(), nullptr};
  }
  RawProbeSocket& socket = **raw;
  TimerPtr watch = loop.WatchReadable(socket.fd(), [&socket] { socket.HandleReady(); });
  return {std::move(*raw), std::move(watch)};
}

}  // namespace espalier::agent
