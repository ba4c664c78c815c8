#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/agent/agent_fixture.h"

namespace espalier::agent {

class PathGuardTest : public AgentTest {
 protected:
  // Without the measurements of PathSampler, which use the same message.
  void Sync(AgentOptions options = {}) {
    options.sampler.interval = std::chrono::hours(1);
    AgentTest::Sync(std::move(options));
  }
  // Opens a pushed flow that makes no progress.
  void StuckFlow(std::uint16_t port) {
    Sync();
    Open(1);
    Push(Difference(1, 1, {Set(1, port)}));
    bus_.sent.clear();
  }
  void Retry() { ++source_.flows.at(wire::LocalFlowId(1)).retries; }
  // The verdicts since the last call; recoveries are not among them (RecoveryWatch).
  std::vector<wire::FlowHealth> Health() {
    std::vector<wire::FlowHealth> all;
    for (const wire::PathHealth& health : bus_.Take<wire::PathHealth>()) {
      for (const wire::FlowHealth& flow : health.flows) {
        if (flow.recovered_us == 0) all.push_back(flow);
      }
    }
    return all;
  }
};

}  // namespace espalier::agent
