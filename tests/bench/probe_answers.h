#pragma once

#include <cstdint>
#include <utility>

#include "agent/sim/sim_host.h"
#include "proto/messages.h"

namespace espalier::bench {

// What a host's agent reports about a controller's order of probes on a simulated fabric; each
// answer takes 30 us.
inline wire::ProbeReport AnswerOrder(sim::SimFabric& fabric, const wire::ProbeOrder& order) {
  wire::ProbeReport report{.order = order.order, .done = true};
  for (const std::uint16_t port : order.source_ports) {
    for (const std::uint8_t ttl : order.ttls) {
      ++report.sent;
      const auto reply = sim::AnswerProbe(fabric, {.source = order.source,
                                                   .destination = order.destination,
                                                   .source_port = port,
                                                   .destination_port = order.destination_port,
                                                   .destination_qpn = order.destination_qpn,
                                                   .ttl = ttl});
      if (reply) report.answers.push_back({port, ttl, reply->responder, 30});
    }
  }
  return report;
}

}  // namespace espalier::bench
