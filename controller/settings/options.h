#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

#include "common/base/event_loop.h"
#include "common/base/wall_time.h"
#include "controller/intents/policy.h"
#include "controller/links/link_monitor.h"
#include "controller/paths/path_learner.h"
#include "controller/routing/online_assigner.h"
#include "proto/message_cost.h"

namespace espalier::controller {

struct ControllerOptions {
  // Names this process in its messages; each has its own. 0: drawn at random.
  std::uint64_t instance = 0;
  // Agents and controller each send a heartbeat at this interval; an agent that is silent for
  // `missed_heartbeats` of them is gone (its flows keep their paths for the lease).
  Duration heartbeat_interval = std::chrono::seconds(1);
  int missed_heartbeats = 3;
  // How long the flows of an agent that is gone keep their places; as long as agents keep their
  // ports without a controller.
  Duration lease = std::chrono::minutes(10);
  // A push that is not acknowledged by then is followed by a full one.
  Duration resend_after = std::chrono::seconds(1);
  // After a restart: how long the first push to an agent waits for the paths of its flows that an
  // earlier controller steered to be found by probes.
  Duration adoption_timeout = std::chrono::seconds(2);
  // One port in use is verified by a probe at this interval, for ever; 0: never.
  Duration verify_interval = std::chrono::seconds(1);
  // Whether the switches hash the protocol number and the destination QP. Where they do not hash
  // the protocol, what UDP probes learn holds for TCP too.
  bool fabric_hashes_protocol = true;
  bool fabric_hashes_qpn = false;
  Algorithm algorithm = Algorithm::kOptimal;
  // How many live flows one start may move, at their next message, where the maximum load would
  // grow beyond its optimum otherwise; 0: only an operator or a dead path moves live flows.
  std::size_t moves_per_start = 8;
  // And how many bytes these may have in flight in all.
  std::int64_t moved_bytes_per_start = std::numeric_limits<std::int64_t>::max();
  // Whether hosts are told the rate that each flow is to settle at (water-filling), as a limit.
  bool limit_rates = false;
  // Whether plans are made in the background for what jobs start next, and for the failure of every
  // single link and switch.
  bool plan_ahead = true;
  std::size_t max_flows_per_agent = 16'384;
  // What one agent may send, which it is told; an agent that exceeds it is sent away. The bus
  // counts messages and bytes, the controller entries.
  wire::AgentLimits agent_limits;
  LinkMonitorOptions detection;
  // Reports of progress that all agents together are to send in a second at most: with more than
  // a hundredth as many agents, each is told to report less often than every 10 ms. The control
  // loop takes several times as many (tests/bench/control_loop_bench).
  std::uint32_t max_reports_per_second = 100'000;
  PathLearnerOptions learner;
  // Runs long work where it keeps no loop waiting, and then `done` on the controller's loop; none:
  // both run on that loop.
  std::function<void(std::function<void()> work, std::function<void()> done)> background;
  // Stamps what is stored, and ends intents that hold until a time.
  WallClock wall_clock = SystemWallTime;
};

// What the start of a flow may move: new flows freely, and at most `move_limit` live ways.
inline OnlineAssigner::Options ChainOptions(const ControllerOptions& options,
                                            std::size_t move_limit) {
  constexpr std::size_t kLongestChain = 64;
  return {.max_moves = options.algorithm == Algorithm::kGreedy ? 0 : kLongestChain,
          .max_in_progress_moves = move_limit,
          .max_moved_bytes = options.moved_bytes_per_start};
}

}  // namespace espalier::controller
