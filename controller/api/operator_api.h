#pragma once

#include "common/base/metrics.h"
#include "common/io/http.h"
#include "controller/controller.h"

namespace espalier::controller {

// The operator's API (docs/operating.md): /metrics, /healthz, /readyz, and under /api/v1/
//   GET  status, flows, flows/explain?flow=NAME, links, agents, intents, plans?since=N,
//        events?since=N, audit?since=N
//   POST {links|nodes}/{fail|restore|drain|undrain}?id=ID, recompute, rollback?to=REVISION;
//        each with &dry_run=true and &reason=TEXT, fail and drain with &until=TIME
// Answers are JSON objects; errors {"error": {"code", "message"}} with 400, 404, 409, 429 or 500.
// An action is answered when it is durable and done.
// Thread safety: the controller's loop thread.
class OperatorApi {
 public:
  OperatorApi(Controller& controller, const Metrics& metrics)
      : controller_(controller), metrics_(metrics) {}
  void Handle(const io::HttpRequest& request, io::HttpServer::Respond respond);

 private:
  io::HttpResponse HandleGet(const io::HttpRequest& request);
  void HandleAudit(const io::HttpRequest& request, io::HttpServer::Respond respond);
  void HandlePost(const io::HttpRequest& request, io::HttpServer::Respond respond);

  Controller& controller_;
  const Metrics& metrics_;
};

}  // namespace espalier::controller
