#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "agent/probe/train_socket.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/ecmp/ecmp_hash.h"
#include "common/sim/link_troubles.h"

namespace espalier::sim {

class SimTrainSocket;

// Carries packets of probe trains among the hosts of a simulated fabric, which says what happens to
// each of them.
// Thread safety: the loop's thread, which must outlive it, and it its sockets.
class SimTrains {
 public:
  // Returns what happens to a packet between hosts with sockets: SimFabric::Carry, mostly.
  using Fabric = std::function<Transit(const fabric::FlowTuple& tuple, std::uint8_t dscp)>;
  SimTrains(Fabric fabric, EventLoop& loop) : fabric_(std::move(fabric)), loop_(loop) {}

 private:
  friend class SimTrainSocket;
  struct InFlight {
    agent::TrainArrival arrival;
    std::uint16_t port = 0;
  };

  void Carry(const agent::TrainPacket& packet, Duration sender_clock);
  void Deliver();

  const Fabric fabric_;
  EventLoop& loop_;
  std::map<IpAddress, SimTrainSocket*> sockets_;
  std::multimap<TimePoint, InFlight> in_flight_;  // by the time of arrival
  TimerPtr timer_;
};

// The socket of a host with one NIC.
// Thread safety: the loop's thread.
class SimTrainSocket : public agent::TrainSocket {
 public:
  SimTrainSocket(SimTrains& trains, const IpAddress& address);
  ~SimTrainSocket() override;
  SimTrainSocket(const SimTrainSocket&) = delete;
  SimTrainSocket& operator=(const SimTrainSocket&) = delete;

  // Sets the host's clock ahead of the loop's, or behind it.
  void SetClock(Duration ahead) { clock_ = ahead; }

  Result<void> Send(const agent::TrainPacket& packet) override;
  Result<void> Listen(std::uint16_t port) override;
  void OnArrival(std::function<void(const agent::TrainArrival&)> callback) override {
    on_arrival_ = std::move(callback);
  }
  void HandleReady() override {}
  std::uint64_t Dropped() override { return 0; }

 private:
  friend class SimTrains;

  SimTrains& trains_;
  const IpAddress address_;
  std::uint16_t port_ = 0;
  Duration clock_{};
  std::function<void(const agent::TrainArrival&)> on_arrival_;
};

}  // namespace espalier::sim
