#pragma once

#include "agent/probe/probe_socket.h"

namespace espalier::agent {

// The socket of hosts that must not or cannot probe: it answers every order with an error.
class NoProbeSocket : public ProbeSocket {
 public:
  Result<ProbeMark> Send(const Probe&) override {
    return Fail(ErrorCode::kUnsupported,
                "this agent does not probe (no_probing is set, or it lacks CAP_NET_RAW)");
  }
  void OnReply(std::function<void(const ProbeReply&)>) override {}
};

}  // namespace espalier::agent
