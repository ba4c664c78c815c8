#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/verbs/roce_address.h"

namespace espalier::verbs {

// How the source port of a queue pair that is in use can be changed.
enum class PortChangeMethod : std::uint8_t {
  kNone,        // not at all: a pool's traffic moves to another queue pair, made with that port
  kSetUdpPort,  // at once (mlx5dv_modify_qp_udp_sport)
  kDrain,       // between RTS -> SQD -> RTS, once what was begun has been acknowledged
};

// What a device lets us decide of the paths of its traffic.
struct PathControl {
  bool at_connect = false;  // the flow label at INIT -> RTR decides the source port
  PortChangeMethod live = PortChangeMethod::kNone;
  std::string why_not;  // where not at_connect: such traffic stays on plain ECMP
};

// What was seen of a device by trying; errno values, 0: it worked.
struct PathTrial {
  bool is_infiniband = true;  // transport; iWARP runs over TCP
  std::string driver;         // "mlx5_core", "rdma_rxe", ...; empty: unknown
  int connect_error = 0;      // of a queue pair with a flow label
  int set_udp_port_error = 0;
  int drain_error = 0;
};

// What follows from a trial.
PathControl JudgePathControl(const PathTrial& trial);
// Tries it all on a queue pair that is connected with itself and sends nothing.
// Errors: those of making one.
Result<PathControl> TryPathControl(const RoceAddress& address);
// Of all RDMA devices of this host that have no address to send RoCEv2 from (iWARP, InfiniBand,
// those without an IP address): why there is none. By name.
std::vector<std::pair<std::string, PathControl>> ListDevicesWithoutPathControl();
// "path control unsupported: ...", "flow label", "flow label, live by draining", ...
std::string DescribePathControl(const PathControl& control);

// Changes the source port of a queue pair in RTS, step by step so that nobody waits: Start, then
// Continue every now and then until it says true. Work requests may be posted all the while, but
// where the way is kDrain nothing is sent until the end, and one more may have to be posted then
// to set the rest going.
// Errors: kInvalidArgument for a port that RoCE does not have; kUnavailable for a queue pair that
// has failed; kUnsupported for kNone and where the driver refuses, with nothing changed.
class LivePortChange {
 public:
  LivePortChange(ibv_qp& pair, PortChangeMethod way, std::uint16_t port)
      : pair_(pair), way_(way), port_(port) {}

  Result<void> Start();
  Result<bool> Continue();

 private:
  Result<bool> EndDrain();

  ibv_qp& pair_;
  PortChangeMethod way_;
  std::uint16_t port_;
};

}  // namespace espalier::verbs
