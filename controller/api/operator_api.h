#pragma once

#include <string_view>

#include "common/base/metrics.h"
#include "common/io/http.h"
#include "controller/api/live_feed.h"
#include "controller/controller.h"

namespace espalier::controller {

// The operator's API (docs/operating.md): /metrics, /healthz, /readyz, the page at /, and under
// /api/v1/
//   GET  status, topology, flows, flows/explain?flow=NAME, jobs, links, agents, intents,
//        path-map?source=NIC, plans?since=N, events?since=N, audit?since=N,
//        stream (server-sent events, live_feed.h), openapi.json (all this, for machines)
//        forests, forests/plan?job=NAME
//   POST jobs/start (body: docs/formats.md), jobs/stop?id=NAME,
//   {links|nodes}/{fail|restore|drain|undrain}?id=ID, recompute, rollback?to=REVISION;
//        each with &dry_run=true and &reason=TEXT, fail and drain with &until=TIME
// Answers are JSON objects; errors {"error": {"code", "message"}} with 400, 404, 409, 429 or 500.
// An action is answered when it is durable and done. One that a page of another site asks for is
// refused (403).
// Thread safety: the controller's loop thread.
class OperatorApi {
 public:
  OperatorApi(Controller& controller, const Metrics& metrics)
      : controller_(controller), metrics_(metrics), feed_(controller) {}
  void Handle(const io::HttpRequest& request, io::HttpServer::Respond respond);

 private:
  io::HttpResponse HandleGet(const io::HttpRequest& request);
  io::HttpResponse HandleView(const io::HttpRequest& request, std::string_view view);
  io::HttpResponse OpenStream();
  void HandleAudit(const io::HttpRequest& request, io::HttpServer::Respond respond);
  void HandlePost(const io::HttpRequest& request, io::HttpServer::Respond respond);

  Controller& controller_;
  const Metrics& metrics_;
  LiveFeed feed_;
};

}  // namespace espalier::controller
