#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace espalier::dpdk {

// Starts DPDK's environment in this process, once; it ends with the process.
// Errors: kInvalidArgument for arguments that it refuses (it says which on stderr).
Result<void> StartEnvironment(const std::vector<std::string>& arguments);

struct PortOptions {
  std::string name;  // DPDK's: "net_af_packet0", "0000:03:00.0"
  std::uint16_t queues = 1;
  std::uint32_t mtu = 0;  // 0: as it is
};

// A port of DPDK that is open: every frame that comes is given, whoever it is for.
// Thread safety: one thread; bursts on its queues: one thread each.
class Port {
 public:
  // Queues that a port of this name can have, to receive and to send alike.
  static Result<std::uint16_t> MaxQueues(const std::string& name);
  // Errors: kNotFound (no such port), kUnavailable for what its driver refuses.
  static Result<Port> Open(const PortOptions& options);
  ~Port();
  Port(Port&& other) noexcept;
  Port& operator=(Port&&) = delete;

  std::uint16_t id() const { return id_; }
  const std::string& name() const { return name_; }
  // The device behind it is there; asks the system.
  bool IsPresent() const;
  // Frames that it could not take or hand out, as its driver counts them.
  std::uint64_t Missed() const;

 private:
  Port(std::uint16_t id, std::string name, unsigned interface)
      : id_(id), name_(std::move(name)), interface_(interface) {}

  std::uint16_t id_;
  std::string name_;
  unsigned interface_;  // of the system, behind the port; 0: none
  bool open_ = true;
};

}  // namespace espalier::dpdk
