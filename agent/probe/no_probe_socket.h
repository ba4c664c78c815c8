#pragma once

#include "agent/probe/probe_socket.h"

namespace espalier::agent {

// For hosts that must not or cannot probe: every order is answered by an error.
class NoProbeSocket : public ProbeSocket {
 public:
  Result<void> Send(const Probe&) override {
    return Fail(ErrorCode::kUnsupported, "this agent does not probe");
  }
  void OnReply(std::function<void(const ProbeReply&)>) override {}
};

}  // namespace espalier::agent
