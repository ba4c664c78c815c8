#include "agent/probe/sockets/probing.h"

#include <utility>

#include "agent/probe/sockets/no_probe_socket.h"
#include "agent/probe/sockets/no_train_socket.h"
#include "agent/probe/sockets/raw_probe_socket.h"
#include "agent/probe/sockets/raw_train_socket.h"
#include "common/base/log.h"

namespace espalier::agent {

Probing OpenProbing(io::AsioEventLoop& loop, bool wanted,
                    std::function<bool(const IpAddress&)> is_own,
                    RawProbeSocket::InterfaceOf interface_of) {
  Probing probing{.socket = std::make_unique<NoProbeSocket>(),
                  .watch = nullptr,
                  .trains = std::make_unique<NoTrainSocket>(),
                  .trains_watch = nullptr,
                  .features = {}};
  if (!wanted) return probing;
  Result<std::unique_ptr<RawProbeSocket>> probes =
      RawProbeSocket::Open(std::move(is_own), std::move(interface_of));
  Result<std::unique_ptr<RawTrainSocket>> trains = RawTrainSocket::Open();
  if (!probes || !trains) {
    Log(LogLevel::kWarning, "event=no_probing cause=\"{}\"",
        probes ? trains.error().message : probes.error().message);
    return probing;
  }
  const auto watch = [&loop](auto& socket) {
    return loop.WatchReadable(socket.fd(), [&socket] { socket.HandleReady(); });
  };
  probing.watch = watch(**probes);
  probing.trains_watch = watch(**trains);
  probing.socket = std::move(*probes);
  probing.trains = std::move(*trains);
  probing.features = {"probe", "link_tests"};
  return probing;
}

}  // namespace espalier::agent
