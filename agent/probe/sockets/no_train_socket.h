#pragma once

#include "agent/probe/train_socket.h"

namespace espalier::agent {

// The socket of hosts that must not or cannot probe: it sends nothing and hears nothing.
class NoTrainSocket : public TrainSocket {
 public:
  Result<void> Send(const TrainPacket&) override { return Refuse(); }
  Result<void> Listen(std::uint16_t) override { return Refuse(); }
  void OnArrival(std::function<void(const TrainArrival&)>) override {}
  void HandleReady() override {}
  std::uint64_t Dropped() override { return 0; }

 private:
  static Result<void> Refuse() {
    return Fail(ErrorCode::kUnsupported,
                "this agent does not probe (no_probing is set, or it lacks CAP_NET_RAW)");
  }
};

}  // namespace espalier::agent
