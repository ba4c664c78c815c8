#pragma once

#include "common/base/metrics.h"
#include "common/io/http.h"
#include "controller/controller.h"

namespace espalier::controller {

// The operator's API (docs/operating.md): /metrics, /healthz, /readyz, and under /api/v1/
//   GET  status, flows, flows/explain?flow=NAME, links, agents, plans?since=N, events?since=N
//   POST links/{fail|restore|drain|undrain}?id=LINK, nodes/{fail|restore}?id=NODE, recompute;
//        each with &dry_run=true, the first with &reason=TEXT
// Answers are JSON objects; errors {"error": {"code", "message"}} with 400, 404, 409 or 500.
// Thread safety: the controller's loop thread.
class OperatorApi {
 public:
  OperatorApi(Controller& controller, const Metrics& metrics)
      : controller_(controller), metrics_(metrics) {}
  io::HttpResponse Handle(const io::HttpRequest& request);

 private:
  io::HttpResponse HandleGet(const io::HttpRequest& request);
  io::HttpResponse HandlePost(const io::HttpRequest& request);

  Controller& controller_;
  const Metrics& metrics_;
};

}  // namespace espalier::controller
