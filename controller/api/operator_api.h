#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/http/http.h"
#include "common/http/http_server.h"
#include "controller/api/fabric_metrics.h"
#include "controller/api/history/history_recorder.h"
#include "controller/api/http/route.h"
#include "controller/api/live/live_feed.h"
#include "controller/controller.h"
#include "controller/operations/topology_keeper.h"

namespace espalier::controller {

// The operator's API over HTTP: /metrics, /healthz, /readyz, the page at /, and what openapi.json
// describes under /api/v1/ (docs/api.md, Routes()).
// Answers are JSON objects; errors are {"error": {"code", "message"}} with status 400, 404, 409,
// 429 or 500. An action is answered when it is durable and done. A request from a page of another
// site is refused (403).
// Thread safety: the controller's loop thread.
class OperatorApi {
 public:
  using Reload = std::function<io::HttpResponse()>;

  // `reload` makes the daemon read its configuration and keys again and returns the response.
  // `keeper` keeps topologies that operators apply; null: this daemon takes none over.
  // `history_budget`: bytes of memory for the history of the fabric.
  OperatorApi(Controller& controller, Metrics& metrics, Reload reload,
              TopologyKeeper* keeper = nullptr,
              std::size_t history_budget = FabricHistory::kDefaultBudget)
      : controller_(controller),
        metrics_(metrics),
        reload_(std::move(reload)),
        keeper_(keeper),
        fabric_metrics_(metrics),
        feed_(controller, metrics),
        recorder_(controller, metrics, history_budget) {}

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
  io::HttpResponse OpenStream(const io::HttpRequest& request);
  io::HttpResponse ShowReadiness(const io::HttpRequest& request);
  bool HandleHistory(const io::HttpRequest& request, const io::HttpServer::Respond& respond);
  void HandleAudit(const io::HttpRequest& request, io::HttpServer::Respond respond);
  void HandleTopology(const io::HttpRequest& request, io::HttpServer::Respond respond);
  void HandlePost(const io::HttpRequest& request, io::HttpServer::Respond respond);
  static void Act(Controller& controller, const Action& action, const io::HttpRequest& request,
                  io::HttpServer::Respond respond);

  Controller& controller_;
  const Metrics& metrics_;
  const Reload reload_;
  TopologyKeeper* const keeper_;
  FabricMetrics fabric_metrics_;
  LiveFeed feed_;
  HistoryRecorder recorder_;
  // The answer to /readyz over TCP, where strangers may ask, and when it was made.
  std::string readiness_;
  TimePoint readiness_since_ = TimePoint::min();
};

}  // namespace espalier::controller
