#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace espalier::dpdk {

// Starts DPDK's environment in this process, once; it ends with the process.
// Errors: kInvalidArgument for arguments that DPDK refuses (it names them on stderr).
Result<void> StartEnvironment(const std::vector<std::string>& arguments);

struct PortOptions {
  std::string name;  // in DPDK, for example "net_af_packet0" or "0000:03:00.0"
  std::uint16_t queues = 1;
  std::uint32_t mtu = 0;  // 0: unchanged
};

// An open port of DPDK, in promiscuous mode.
// Thread safety: one thread; bursts on its queues: one thread each.
class Port {
 public:
  // Returns the number of queues that a port can have both to receive and to send.
  static Result<std::uint16_t> MaxQueues(const std::string& name);
  // Errors: kNotFound if there is no such port, kUnavailable if its driver refuses the options.
  static Result<Port> Open(const PortOptions& options);
  ~Port();
  Port(Port&& other) noexcept;
  Port& operator=(Port&&) = delete;

  std::uint16_t id() const { return id_; }
  const std::string& name() const { return name_; }
  // True if the device of the port still exists; asks the system.
  bool IsPresent() const;
  // Returns the frames that the driver counts as missed or failed, received or to be sent.
  std::uint64_t Missed() const;

 private:
  Port(std::uint16_t id, std::string name, unsigned interface)
      : id_(id), name_(std::move(name)), interface_(interface) {}

  std::uint16_t id_;
  std::string name_;
  unsigned interface_;  // index of the system's network interface of the port; 0: none
  bool open_ = true;
};

}  // namespace espalier::dpdk
