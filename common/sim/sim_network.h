#pragma once

#include <memory>
#include <string>

#include "common/base/bus.h"
#include "common/base/event_loop.h"
#include "common/sim/sim_world.h"

namespace espalier::sim {

// What a connection does to the messages of each way. Loss and duplication go beyond what a Bus
// may do on one connection; services survive them all the same.
struct LinkFaults {
  Duration delay = std::chrono::microseconds(50);
  Duration jitter{};  // added to the delay, evenly from 0 up to this; never reorders
  double loss = 0;    // probability, of one message
  double duplication = 0;
};

// One controller and many agents on a simulated network, with the manners of the real bus
// (common/bus/zmq_bus.h): 64 messages a way at most, agents that reconnect 50 to 150 ms after a
// break as new peers, a controller that learns of a lost peer when it sends to it.
//
// All of it is decided by the world's seed. Every message that is delivered is part of the
// world's trace. Thread safety: the world's thread.
class SimNetwork {
 public:
  explicit SimNetwork(SimWorld& world);
  ~SimNetwork();  // after its buses
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  // The controller's end; there is at most one at a time.
  std::unique_ptr<Bus> MakeController(EventLoop& loop);
  // An agent's end. Of each name there is at most one at a time; the faults stay with the name.
  std::unique_ptr<Bus> MakeAgent(EventLoop& loop, const std::string& name);

  // For messages sent from now on.
  void SetFaults(const LinkFaults& faults);  // of every agent, and of those to come
  void SetFaults(const std::string& agent, const LinkFaults& faults);

  // Nothing passes and nobody is told: messages wait, up to the queue's limit, and arrive after
  // Heal, late but in order (as TCP would have it).
  void Partition(const std::string& agent);
  void Heal(const std::string& agent);
  // Breaks the connection, if there is one; what was on its way is lost.
  void Break(const std::string& agent);

  struct Statistics {
    std::uint64_t delivered = 0;
    std::uint64_t delivered_bytes = 0;
    std::uint64_t lost = 0;
    std::uint64_t duplicated = 0;
    std::uint64_t refused = 0;  // by a full queue
  };
  const Statistics& statistics() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::sim
