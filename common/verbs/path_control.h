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

// How the source port of a queue pair in use can change.
enum class PortChangeMethod : std::uint8_t {
  kNone,        // not at all: traffic can only move to another queue pair with that port
  kSetUdpPort,  // at once (mlx5dv_modify_qp_udp_sport)
  kDrain,       // by RTS -> SQD -> RTS, after requests in flight have been acknowledged
};

// How far the paths of a device's traffic can be chosen.
struct PathControl {
  bool at_connect = false;  // the flow label at INIT -> RTR determines the source port
  PortChangeMethod live = PortChangeMethod::kNone;
  std::string why_not;  // if not at_connect: why the traffic stays on plain ECMP
  // The highest rate, in bits per second, to which it limits reliable queue pairs each; 0: none.
  std::uint64_t highest_paced_bps = 0;
};

// The outcome of trying a device; errno values, 0: it worked.
struct PathTrial {
  bool is_infiniband = true;  // false: iWARP, which runs over TCP
  std::string driver;         // "mlx5_core", "rdma_rxe", ...; empty: unknown
  int connect_error = 0;      // of connecting a queue pair with a flow label
  int set_udp_port_error = 0;
  int drain_error = 0;
};

// Concludes from a trial what the device supports.
PathControl JudgePathControl(const PathTrial& trial);
// Tries a device with a queue pair that is connected to itself and sends nothing.
// Errors: those of making the queue pair.
Result<PathControl> TryPathControl(const RoceAddress& address);
// Lists the RDMA devices of this host without an address for RoCEv2 (iWARP, InfiniBand, devices
// without an IP address), by name, with the reason.
std::vector<std::pair<std::string, PathControl>> ListDevicesWithoutPathControl();
// Returns a text such as "path control unsupported: ..." or "flow label, live by draining".
std::string DescribePathControl(const PathControl& control);
// Returns whether the device enforces rate limits, and why not.
std::string DescribeRateControl(const PathControl& control);
// Returns both for a log: paths="..." rates="...".
std::string DescribeControl(const PathControl& control);

// Changes the source port of a queue pair in RTS, in steps so that no thread waits: call Start,
// then Continue repeatedly until it returns true. The program may post work requests meanwhile.
// With kDrain they are sent only after the end, and one more may have to be posted to start them.
// Errors: kInvalidArgument for a port that RoCE does not use; kUnavailable for a queue pair that
// has failed; kUnsupported for kNone, and if the driver refuses, which changes nothing.
class LivePortChange {
 public:
  LivePortChange(ibv_qp& pair, PortChangeMethod method, std::uint16_t port)
      : pair_(pair), method_(method), port_(port) {}

  Result<void> Start();
  Result<bool> Continue();

 private:
  Result<bool> EndDrain();

  ibv_qp& pair_;
  PortChangeMethod method_;
  std::uint16_t port_;
};

}  // namespace espalier::verbs
