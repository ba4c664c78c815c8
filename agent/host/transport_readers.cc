#include "agent/host/transport_readers.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "agent/host/device_counters.h"
#include "agent/host/tcp_sockets.h"
#include "common/base/log.h"

namespace espalier::agent {
namespace {

// The name of the network device with this address; "" if there is none.
std::string DeviceOf(const NicWatch& nics, const IpAddress& address) {
  const auto nic = std::ranges::find(nics.nics(), address, &wire::Nic::address);
  return nic == nics.nics().end() ? "" : nic->device;
}

}  // namespace

TransportReaders MakeTransportReaders(const NicWatch& nics) {
  const auto files = std::make_shared<DeviceCounterFiles>();
  TransportReaders readers;
  readers.device = [&nics, files](const IpAddress& source) {
    const std::string device = DeviceOf(nics, source);
    return device.empty() ? DeviceCounters{} : files->Read(device);
  };
  readers.repeated_requests = [&nics, files](const IpAddress& nic) {
    const std::string device = DeviceOf(nics, nic);
    return device.empty() ? 0 : files->ReadRepeats(device);
  };
  if (Result<TcpSockets> opened = TcpSockets::Open()) {
    readers.sockets = [sockets = std::make_shared<TcpSockets>(std::move(*opened))](
                          std::span<const TcpConnection> connections) {
      return sockets->Read(connections);
    };
  } else {
    Log(LogLevel::kWarning, "event=tcp_sockets_unknown cause=\"{}\"", opened.error().message);
  }
  return readers;
}

}  // namespace espalier::agent
