#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

#include "common/base/time/event_loop.h"
#include "common/base/time/wall_time.h"
#include "controller/intents/policy.h"
#include "controller/link_tests/trains/train_planner.h"
#include "controller/links/link_monitor.h"
#include "controller/paths/path_learner.h"
#include "controller/paths/verification_schedule.h"
#include "controller/routing/online/online_assigner.h"
#include "proto/message_cost.h"

namespace espalier::controller {

// Which flows add load to their paths.
//   kBursts       the flows that are busy, and those that are idle but whose next burst is not
//   known kConnections  all open flows
enum class Activity { kBursts, kConnections };

// Agents and controller each send a heartbeat at this interval. An agent that is silent for
// `missed` intervals counts as gone; its flows keep their paths for the lease.
struct HeartbeatOptions {
  Duration interval = std::chrono::seconds(1);
  int missed = 3;
};

// The options of the controller, with their defaults.
struct ControllerOptions {
  // Identifies this process in its messages. 0: drawn at random.
  std::uint64_t instance = 0;
  HeartbeatOptions heartbeat;
  // How long the flows of an agent that is gone keep their paths: as long as agents keep their
  // ports without a controller.
  Duration lease = std::chrono::minutes(10);
  // A push that is not acknowledged within this time is followed by a full one.
  Duration resend_after = std::chrono::seconds(1);
  // How ports in use are verified; an interval of 0: not at all. The default suffices for 19,200
  // ports of a leaf and is far below the rate at which switches answer.
  VerificationPace verification;
  // Whether the switches hash the protocol number and the destination queue pair. If they do not
  // hash the protocol, what UDP probes learn holds for TCP too.
  bool fabric_hashes_protocol = true;
  bool fabric_hashes_qpn = false;
  Algorithm algorithm = Algorithm::kOptimal;
  // How a recomputation divides flows that send in proportion to the weights of their paths.
  Shares shares = Shares::kExact;
  Activity activity = Activity::kBursts;
  // Whether no flow is steered, whatever operators set, and the controller only watches what
  // steering would gain.
  bool observes = false;
  // How many flows in progress one arrival may move, at their next message, to keep the maximum
  // load at its optimum; 0: only an operator or a dead path moves flows in progress.
  std::size_t moves_per_start = 8;
  // Upper bound on the total in-flight bytes of these flows.
  std::int64_t moved_bytes_per_start = std::numeric_limits<std::int64_t>::max();
  // Which flows get, as a rate limit, the rate at which they will settle (water-filling).
  RateLimits limit_rates = RateLimits::kAutomatic;
  // Whether paths are precomputed in the background for the flows that jobs will start next, and
  // for the failure of every single link and switch.
  bool plan_ahead = true;
  std::size_t max_flows_per_agent = 16'384;
  // What one agent may send in a second. Agents are told these limits; one that exceeds them is
  // disconnected. The bus counts messages and bytes, the controller counts entries.
  wire::AgentLimits agent_limits;
  LinkMonitorOptions detection;
  LinkTestOptions link_tests;
  // Whether flows that send by weights are divided again where equal parts load links unevenly.
  bool balance_splits = true;
  // Upper bound on the progress reports that all agents together send in a second. With more than a
  // hundredth as many agents, each is told to report less often than every 10 ms. The control loop
  // can take several times as many (tests/bench/control_loop_bench).
  std::uint32_t max_reports_per_second = 100'000;
  PathLearnerOptions learner;
  // An operator's action that would move more flows than this must be confirmed; 0: none must.
  std::size_t confirm_moves_above = 0;
  // Runs `work` off the loop's thread, then `done` on the controller's loop. Not set: both run on
  // that loop.
  std::function<void(std::function<void()> work, std::function<void()> done)> background;
  // Gives the times of stored records and of the ends of intents.
  WallClock wall_clock = SystemWallTime;
};

// What one flow arrival may move: new flows freely, and at most `move_limit` subflows in progress.
inline OnlineAssigner::Options ChainOptions(const ControllerOptions& options,
                                            std::size_t move_limit) {
  constexpr std::size_t kLongestChain = 64;
  return {.max_moves = options.algorithm == Algorithm::kGreedy ? 0 : kLongestChain,
          .max_in_progress_moves = move_limit,
          .max_moved_bytes = options.moved_bytes_per_start};
}

}  // namespace espalier::controller
