#pragma once

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "common/http/http.h"
#include "controller/telemetry/collector.h"
#include "controller/telemetry/polls/polled_switches.h"

namespace espalier::telemetry {

// The answer of the daemon's HTTP interface: /metrics, /healthz, /exporters and /flows.
io::HttpResponse AnswerRequest(const io::HttpRequest& request, const Collector& collector,
                               const PolledSwitches& switches, const Metrics& metrics,
                               TimePoint now);

}  // namespace espalier::telemetry
