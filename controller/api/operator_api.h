#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/http/http.h"
#include "controller/api/fabric_metrics.h"
#include "controller/api/http/route.h"
#include "controller/api/live_feed.h"
#include "controller/controller.h"

namespace espalier::controller {

// The operator's API (docs/operating.md): /metrics, /healthz, /readyz, the page at /, and under
// /api/v1/
//   GET  status, topology, flows, flows/ended?since=N, flows/explain?flow=NAME, jobs, links,
//   agents, intents,
//        path-map?source=NIC, plans?since=N, events?since=N, audit?since=N,
//        each of topology, flows, jobs, links, agents, path-map, plans and events with
//        &limit=N and &after=NAME ("next" of the page before),
//        stream (server-sent events, live_feed.h), openapi.json (all this, for machines)
//        forests, forests/plan?job=NAME
//   POST probe?source=NIC&destination=NIC with &port=P or &ports=N,
//   jobs/start (body: docs/formats.md), jobs/stop?id=NAME,
//   {links|nodes}/{fail|restore|drain|undrain}?id=ID, recompute, rollback?to=REVISION;
//        each with &dry_run=true and &reason=TEXT, fail and drain with &until=TIME
// Answers are JSON objects; errors are {"error": {"code", "message"}} with status 400, 404, 409,
// 429 or 500. An action is answered when it is durable and done. A request from a page of another
// site is refused (403).
// Thread safety: the controller's loop thread.
class OperatorApi {
 public:
  // `reload` makes the daemon read its configuration and keys again and returns the response.
  using Reload = std::function<io::HttpResponse()>;

  OperatorApi(Controller& controller, Metrics& metrics, Reload reload)
      : controller_(controller),
        metrics_(metrics),
        reload_(std::move(reload)),
        fabric_metrics_(metrics),
        feed_(controller, metrics) {}

  void Handle(const io::HttpRequest& request, io::HttpServer::Respond respond);
  // All routes that it answers, except those of the page's files.
  static std::vector<Route> Routes();

 private:
  // A route for GET.
  struct View {
    std::string_view path;
    io::HttpResponse (*answer)(OperatorApi& api, const io::HttpRequest& request);
  };
  static std::span<const View> Views();
  // A route for POST that changes intents or moves flows.
  struct Action {
    std::string_view path;
    bool takes_until;
    void (*act)(Controller& controller, const io::HttpRequest& request,
                const OperatorRequest& asked, ActionDone done);
  };
  static std::span<const Action> Actions();

  io::HttpResponse HandleGet(const io::HttpRequest& request);
  io::HttpResponse ShowMetrics();
  io::HttpResponse OpenStream();
  void HandleAudit(const io::HttpRequest& request, io::HttpServer::Respond respond);
  void HandlePost(const io::HttpRequest& request, io::HttpServer::Respond respond);
  static void Act(Controller& controller, const Action& action, const io::HttpRequest& request,
                  io::HttpServer::Respond respond);

  Controller& controller_;
  const Metrics& metrics_;
  const Reload reload_;
  FabricMetrics fabric_metrics_;
  LiveFeed feed_;
};

}  // namespace espalier::controller
