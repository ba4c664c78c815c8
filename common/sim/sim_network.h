#pragma once

#include <memory>
#include <string>

#include "common/base/bus.h"
#include "common/base/time/event_loop.h"
#include "common/sim/sim_world.h"

namespace espalier::sim {

// The faults of a connection, in each direction. Loss and duplication go beyond what a Bus may do
// on one connection; services must survive them nevertheless.
struct LinkFaults {
  Duration delay = std::chrono::microseconds(50);
  Duration jitter{};  // added to the delay, uniform from 0 up to this; never reorders
  double loss = 0;    // probability for each message
  double duplication = 0;
};

// Simulates the network between one controller and many agents, with the behaviour of the real bus
// (common/bus/zmq_bus.h): at most 64 messages are queued in each direction; agents reconnect as new
// peers 50 to 150 ms after a break; the controller learns of a lost peer when it sends to it.
//
// The world's seed determines everything. Each delivered message is part of the world's trace.
// Thread safety: the world's thread.
class SimNetwork {
 public:
  explicit SimNetwork(SimWorld& world);
  ~SimNetwork();  // its buses must be destroyed before
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  // Makes the controller's end; there is at most one at a time.
  std::unique_ptr<Bus> MakeController(EventLoop& loop);
  // Makes an agent's end. Each name has at most one at a time. Faults belong to the name.
  std::unique_ptr<Bus> MakeAgent(EventLoop& loop, const std::string& name);

  // Set the faults of messages that are sent afterwards.
  void SetFaults(const LinkFaults& faults);  // of all present and future agents
  void SetFaults(const std::string& agent, const LinkFaults& faults);

  // Blocks all messages without notice: they wait, up to the limit of the queue, and arrive in
  // order after Heal (as over TCP).
  void Partition(const std::string& agent);
  void Heal(const std::string& agent);
  // Breaks the connection, if there is one; messages in flight are lost.
  void Break(const std::string& agent);

  struct Statistics {
    std::uint64_t delivered = 0;
    std::uint64_t delivered_bytes = 0;
    std::uint64_t lost = 0;
    std::uint64_t duplicated = 0;
    std::uint64_t refused = 0;  // because the queue was full
  };
  const Statistics& statistics() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::sim
