#include "controller/api/operator_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "controller/api/actions/discovery_action.h"
#include "controller/api/actions/job_request.h"
#include "controller/api/actions/link_loads.h"
#include "controller/api/actions/link_reports.h"
#include "controller/api/actions/probe_action.h"
#include "controller/api/actions/schedule_request.h"
#include "controller/api/actions/sighting_report.h"
#include "controller/api/actions/topology_action.h"
#include "controller/api/history/advise_view.h"
#include "controller/api/history/history_views.h"
#include "controller/api/http/json_answer.h"
#include "controller/api/http/page_files.h"
#include "controller/api/http/page_safety.h"
#include "controller/api/lists/ended_flow_list.h"
#include "controller/api/lists/feed_list.h"
#include "controller/api/lists/lists.h"
#include "controller/api/lists/path_map_list.h"
#include "controller/api/lists/unannounced_list.h"
#include "controller/api/views/explain_view.h"
#include "controller/api/views/forest_view.h"
#include "controller/api/views/maintenance_view.h"
#include "controller/api/views/prediction_view.h"
#include "controller/api/views/steering_view.h"
#include "controller/api/views/views.h"
#include "proto/text.h"

namespace espalier::controller {
namespace {

using io::HttpRequest;
using io::HttpResponse;

HttpResponse NoSuchPath(const HttpRequest& request) {
  return Failed({ErrorCode::kNotFound,
                 fmt::format("there is no {} {} (GET /api/v1/openapi.json describes the API)",
                             request.method, request.path)});
}

std::string Query(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

Result<bool> Flag(const HttpRequest& request, const std::string& name) {
  const std::string text = Query(request, name);
  if (text.empty() || text == "false") return false;
  if (text == "true") return true;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: invalid value (give true or false)", name));
}

// Parses an optional number.
Result<std::optional<std::uint64_t>> Number(const HttpRequest& request, const std::string& name) {
  const std::string text = Query(request, name);
  if (text.empty()) return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: invalid value (give a whole number, 0 or more)", name));
  }
  return number;
}

// Checks what actions write into logs, events and terminals.
Result<void> CheckPrintable(const HttpRequest& request) {
  for (const auto& [name, value] : request.query) {
    if (wire::IsPrintable(value)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the text has characters that are not printable",
                            wire::MakePrintable(name, 64)));
  }
  return {};
}

// Parses the parameters that all actions have.
Result<OperatorRequest> ParseRequest(const HttpRequest& request, WallTime now) {
  const Result<bool> dry_run = Flag(request, "dry_run");
  if (!dry_run) return tl::unexpected<Error>(dry_run.error());
  const Result<bool> force = Flag(request, "force");
  if (!force) return tl::unexpected<Error>(force.error());
  OperatorRequest asked{.actor = request.peer,
                        .reason = Query(request, "reason"),
                        .force = *force,
                        .dry_run = *dry_run};
  const std::string until = Query(request, "until");
  asked.never_ends = until == "never";
  if (!until.empty() && !asked.never_ends) {
    Result<WallTime> time = ParseWallTime(until, now);
    if (!time) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("until: {}", time.error().message));
    }
    asked.until = *time;
  }
  return asked;
}

// The actions below pass a request to the controller, which calls `done` later. They refuse
// malformed requests themselves.
template <IntentAction action>
void ChangeLink(Controller& controller, const HttpRequest& request, const OperatorRequest& asked,
                ActionDone done) {
  controller.actions().ChangeLink(Query(request, "id"), action, asked, std::move(done));
}

template <IntentAction action>
void ChangeNode(Controller& controller, const HttpRequest& request, const OperatorRequest& asked,
                ActionDone done) {
  controller.actions().ChangeNode(Query(request, "id"), action, asked, std::move(done));
}

void StartJob(Controller& controller, const HttpRequest& request, const OperatorRequest& asked,
              ActionDone done) {
  Result<JobSpec> spec = ParseJobRequest(request.body);
  if (!spec) return done(Propagate(spec));
  controller.actions().StartJob(*spec, asked, std::move(done));
}

void StopJob(Controller& controller, const HttpRequest& request, const OperatorRequest& asked,
             ActionDone done) {
  controller.actions().StopJob(Query(request, "id"), asked, std::move(done));
}

void ChangeWeight(Controller& controller, const HttpRequest& request, const OperatorRequest& asked,
                  ActionDone done) {
  const auto weight = Number(request, "weight");
  if (!weight) return done(tl::unexpected<Error>(weight.error()));
  controller.actions().ChangeWeight(Query(request, "id"), weight->value_or(0), asked,
                                    std::move(done));
}

void SetPolicy(Controller& controller, const HttpRequest& request, const OperatorRequest& asked,
               ActionDone done) {
  controller.actions().ChangePolicy(Query(request, "id"), Query(request, "value"), asked,
                                    std::move(done));
}

void ResetPolicy(Controller& controller, const HttpRequest& request, const OperatorRequest& asked,
                 ActionDone done) {
  controller.actions().ChangePolicy(Query(request, "id"), std::nullopt, asked, std::move(done));
}

void Recompute(Controller& controller, const HttpRequest& request, const OperatorRequest& asked,
               ActionDone done) {
  const auto bytes = Number(request, "move_bytes");
  if (!bytes) return done(tl::unexpected<Error>(bytes.error()));
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  OperatorRequest limited = asked;
  limited.max_moved_bytes = static_cast<std::int64_t>(std::min(bytes->value_or(kMost), kMost));
  controller.actions().Recompute(limited, std::move(done));
}

void RollBack(Controller& controller, const HttpRequest& request, const OperatorRequest& asked,
              ActionDone done) {
  const auto revision = Number(request, "to");
  if (!revision) return done(tl::unexpected<Error>(revision.error()));
  controller.actions().RollBack(*revision, asked, std::move(done));
}

// The names in a list such as "h0,h1".
std::vector<std::string> Names(const HttpRequest& request, const std::string& name) {
  std::vector<std::string> names;
  const std::string text = Query(request, name);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

template <bool on>
void ChangeSteering(Controller& controller, const HttpRequest& request,
                    const OperatorRequest& asked, ActionDone done) {
  const auto percent = Number(request, "percent");
  if (!percent) return done(tl::unexpected<Error>(percent.error()));
  controller.actions().ChangeSteering(Names(request, "host"), Names(request, "job"), *percent, on,
                                      asked, std::move(done));
}

void AddMaintenance(Controller& controller, const HttpRequest& request,
                    const OperatorRequest& asked, ActionDone done) {
  const WallTime now = controller.WallNow();
  const std::string text = Query(request, "from");
  const Result<WallTime> from = text.empty() ? Result<WallTime>(now) : ParseWallTime(text, now);
  if (!from) {
    return done(Fail(ErrorCode::kInvalidArgument, fmt::format("from: {}", from.error().message)));
  }
  controller.actions().AddMaintenance(Query(request, "kind"), Query(request, "id"), *from, asked,
                                      std::move(done));
}

void CancelMaintenance(Controller& controller, const HttpRequest& request,
                       const OperatorRequest& asked, ActionDone done) {
  controller.actions().CancelMaintenance(Query(request, "id"), asked, std::move(done));
}

HttpResponse Alive(OperatorApi&, const HttpRequest&) { return {200, "text/plain", "ok\n", {}, {}}; }

// The embedded file of the path's last word.
HttpResponse ShowFile(OperatorApi&, const HttpRequest& request) {
  return Ok(std::string(FindPageFile(request.path.substr(request.path.rfind('/')))->text));
}

HttpResponse OkOrFailed(Result<std::string> body) {
  return body ? Ok(std::move(*body)) : Failed(body.error());
}

std::function<void(Result<std::string>)> RespondBy(io::HttpServer::Respond respond) {
  return [respond = std::move(respond)](Result<std::string> body) {
    respond(OkOrFailed(std::move(body)));
  };
}

// A route for GET whose answer is a list.
struct List {
  std::string_view path;
  void (*list)(Controller& controller, const Page& page, ListDone done);
};
constexpr List kLists[] = {
    {"/api/v1/flows", ListFlows},       {"/api/v1/flows/ended", ListEndedFlows},
    {"/api/v1/agents", ListAgents},     {"/api/v1/nodes", ListNodes},
    {"/api/v1/links", ListLinks},       {"/api/v1/jobs", ListJobs},
    {"/api/v1/plans", ListPushes},      {"/api/v1/events", ListEvents},
    {"/api/v1/topology", ListTopology}, {"/api/v1/path-map", ListPathMap}};

const List* FindList(const HttpRequest& request) {
  const auto* const found = std::find_if(std::begin(kLists), std::end(kLists),
                                         [&](const List& one) { return one.path == request.path; });
  return request.method == "GET" && found != std::end(kLists) ? found : nullptr;
}

// A route for GET whose answer is a part of the history.
struct HistoryRoute {
  std::string_view path;
  void (*list)(Controller& controller, const FabricHistory& history, const HistoryQuery& query,
               ListDone done);
};
constexpr HistoryRoute kHistories[] = {{"/api/v1/history", ListFabricHistory},
                                       {"/api/v1/history/link", ListLinkHistory},
                                       {"/api/v1/history/job", ListJobHistory},
                                       {"/api/v1/history/moment", ShowMoment}};

constexpr std::string_view kAudit = "/api/v1/audit";
constexpr std::string_view kLinkReports = "/api/v1/links/report";
constexpr std::string_view kLinkLoads = "/api/v1/links/load";
constexpr std::string_view kSightings = "/api/v1/flows/seen";
constexpr std::string_view kSchedules = "/api/v1/jobs/schedule";
constexpr std::string_view kReload = "/api/v1/reload";
constexpr std::string_view kApplyTopology = "/api/v1/topology/apply";
constexpr std::string_view kProbe = "/api/v1/probe";
constexpr std::string_view kDiscover = "/api/v1/topology/discover";

void AnswerList(Controller& controller, const List& list, const HttpRequest& request,
                io::HttpServer::Respond respond) {
  const auto limit = Number(request, "limit");
  if (!limit) return respond(Failed(limit.error()));
  if (*limit == std::optional<std::uint64_t>(0)) {
    return respond(Failed(
        {ErrorCode::kInvalidArgument, "limit: invalid value (give a whole number, 1 or more)"}));
  }
  const auto since = Number(request, "since");
  if (!since) return respond(Failed(since.error()));
  const Page page{*limit, Query(request, "after"), since->value_or(0), Query(request, "source"),
                  Query(request, "link")};
  list.list(controller, page, RespondBy(std::move(respond)));
}

}  // namespace

void OperatorApi::Handle(const HttpRequest& request, io::HttpServer::Respond unsafe) {
  io::HttpServer::Respond respond = [unsafe = std::move(unsafe)](HttpResponse response) {
    AddPageSafety(response);
    unsafe(std::move(response));
  };
  if (request.method == "GET" && request.path == kAudit) {
    return HandleAudit(request, std::move(respond));
  }
  if (HandleHistory(request, respond)) return;
  const List* const list = FindList(request);
  if (list != nullptr) return AnswerList(controller_, *list, request, std::move(respond));
  if (request.method == "GET") return respond(HandleGet(request));
  if (request.method == "POST" && IsFromForeignPage(request)) {
    return respond(
        Failed({ErrorCode::kPermissionDenied, "the request comes from a page of another site"}));
  }
  if (request.method == "POST") return HandlePost(request, std::move(respond));
  respond(NoSuchPath(request));
}

std::span<const OperatorApi::View> OperatorApi::Views() {
  using Api = OperatorApi;
  using Request = HttpRequest;
  static constexpr View kViews[] = {
      {"/metrics", [](Api& api, const Request&) { return api.ShowMetrics(); }},
      {"/healthz", Alive},
      // The controller works even while the fabric does not, so the code is 200 in any case.
      {"/readyz", [](Api& api, const Request& request) { return api.ShowReadiness(request); }},
      {"/api/v1/status", [](Api& api, const Request&) { return Ok(StatusView(api.controller_)); }},
      {"/api/v1/flows/explain",
       [](Api& api, const Request& request) {
         return OkOrFailed(ExplainView(api.controller_, Query(request, "flow")));
       }},
      {"/api/v1/advise",
       [](Api& api, const Request& request) {
         return OkOrFailed(AdviseView(api.controller_, Query(request, "for")));
       }},
      {"/api/v1/forests",
       [](Api& api, const Request&) { return Ok(ForestsView(api.controller_)); }},
      {"/api/v1/forests/plan",
       [](Api& api, const Request& request) {
         return OkOrFailed(ForestPlanView(api.controller_, Query(request, "job")));
       }},
      {"/api/v1/stream", [](Api& api, const Request& request) { return api.OpenStream(request); }},
      {"/api/v1/openapi.json", ShowFile},
      {"/api/v1/event-kinds.json", ShowFile},
      {"/api/v1/flows/unannounced",
       [](Api& api, const Request&) { return Ok(UnannouncedFlows(api.controller_)); }},
      {"/api/v1/feeds", [](Api& api, const Request&) { return Ok(FeedList(api.controller_)); }},
      {"/api/v1/topology/findings",
       [](Api& api, const Request&) { return Ok(DiscoveryFindings(api.controller_)); }},
      {"/api/v1/topology/discovery",
       [](Api& api, const Request&) { return Ok(DiscoveryView(api.controller_)); }},
      {"/api/v1/predict",
       [](Api& api, const Request&) { return Ok(PredictionsView(api.controller_)); }},
      {"/api/v1/policies",
       [](Api& api, const Request&) { return Ok(PoliciesView(api.controller_)); }},
      {"/api/v1/steering",
       [](Api& api, const Request&) { return Ok(SteeringView(api.controller_)); }},
      {"/api/v1/maintenance",
       [](Api& api, const Request&) { return Ok(MaintenanceView(api.controller_)); }},
      {"/api/v1/intents",
       [](Api& api, const Request&) { return Ok(IntentsView(api.controller_)); }},
  };
  return kViews;
}

std::span<const OperatorApi::Action> OperatorApi::Actions() {
  static constexpr Action kActions[] = {
      {"/api/v1/links/fail", true, ChangeLink<IntentAction::kFail>},
      {"/api/v1/links/restore", true, ChangeLink<IntentAction::kRestore>},
      {"/api/v1/links/drain", true, ChangeLink<IntentAction::kDrain>},
      {"/api/v1/links/undrain", true, ChangeLink<IntentAction::kUndrain>},
      {"/api/v1/nodes/fail", true, ChangeNode<IntentAction::kFail>},
      {"/api/v1/nodes/restore", true, ChangeNode<IntentAction::kRestore>},
      {"/api/v1/nodes/drain", true, ChangeNode<IntentAction::kDrain>},
      {"/api/v1/nodes/undrain", true, ChangeNode<IntentAction::kUndrain>},
      {"/api/v1/jobs/weight", true, ChangeWeight},
      {"/api/v1/policies/set", true, SetPolicy},
      {"/api/v1/policies/reset", true, ResetPolicy},
      {"/api/v1/jobs/start", false, StartJob},
      {"/api/v1/jobs/stop", false, StopJob},
      {"/api/v1/steering/off", true, ChangeSteering<false>},
      {"/api/v1/steering/on", false, ChangeSteering<true>},
      {"/api/v1/maintenance/add", true, AddMaintenance},
      {"/api/v1/maintenance/cancel", false, CancelMaintenance},
      {"/api/v1/recompute", false, Recompute},
      {"/api/v1/rollback", false, RollBack},
  };
  return kActions;
}

std::vector<Route> OperatorApi::Routes() {
  std::vector<Route> routes = {
      {"GET", "/"},         {"GET", kAudit},      {"POST", kLinkReports}, {"POST", kLinkLoads},
      {"POST", kSightings}, {"POST", kSchedules}, {"POST", kReload},      {"POST", kApplyTopology},
      {"POST", kProbe},     {"POST", kDiscover}};
  for (const List& list : kLists) routes.push_back({"GET", list.path});
  for (const HistoryRoute& one : kHistories) routes.push_back({"GET", one.path});
  for (const View& view : Views()) routes.push_back({"GET", view.path});
  for (const Action& action : Actions()) routes.push_back({"POST", action.path});
  return routes;
}

HttpResponse OperatorApi::HandleGet(const HttpRequest& request) {
  const auto views = Views();
  const auto view = std::find_if(views.begin(), views.end(),
                                 [&](const View& one) { return one.path == request.path; });
  if (view != views.end()) return view->answer(*this, request);
  if (const PageFile* file = FindPageFile(request.path)) {
    return {200, std::string(file->content_type), std::string(file->text), {}, {}};
  }
  return NoSuchPath(request);
}

HttpResponse OperatorApi::ShowMetrics() {
  controller_.RefreshMetrics();
  fabric_metrics_.Refresh(controller_);
  return {200, "text/plain; version=0.0.4", metrics_.Text(), {}, {}};
}

HttpResponse OperatorApi::ShowReadiness(const HttpRequest& request) {
  constexpr Duration kFresh = std::chrono::milliseconds(500);
  const TimePoint now = controller_.Now();
  if (request.from_unix_socket || now >= readiness_since_ + kFresh) {
    readiness_ = HealthView(controller_) + "\n";
    readiness_since_ = now;
  }
  return {200, "text/plain", readiness_, {}, {}};
}

HttpResponse OperatorApi::OpenStream(const HttpRequest& request) {
  auto stream = feed_.Connect(request.peer);
  if (!stream) {
    return Failed({ErrorCode::kResourceExhausted,
                   fmt::format("{} clients of the live feed are already connected, and no other "
                               "caller has more of them than this one (close one)",
                               LiveFeed::kMaxClients)});
  }
  return {200, "text/event-stream", "", {}, std::move(stream)};
}

// Whether the request asks for the history; then it is answered, perhaps later.
bool OperatorApi::HandleHistory(const HttpRequest& request,
                                const io::HttpServer::Respond& respond) {
  const auto* const found = std::ranges::find(kHistories, request.path, &HistoryRoute::path);
  if (request.method != "GET" || found == std::end(kHistories)) return false;
  const HistoryQuery query{.id = Query(request, "id"),
                           .from = Query(request, "from"),
                           .to = Query(request, "to"),
                           .resolution = Query(request, "resolution"),
                           .time = Query(request, "time")};
  found->list(controller_, recorder_.history(), query, RespondBy(respond));
  return true;
}

void OperatorApi::HandleAudit(const HttpRequest& request, io::HttpServer::Respond respond) {
  constexpr std::size_t kMaxEntries = 1'000;
  const auto since = Number(request, "since");
  if (!since) return respond(Failed(since.error()));
  controller_.actions().ReadAudit(
      since->value_or(0), kMaxEntries, [respond = std::move(respond)](const auto& entries) {
        respond(entries ? Ok(AuditView(*entries)) : Failed(entries.error()));
      });
}

void OperatorApi::HandleTopology(const HttpRequest& request, io::HttpServer::Respond respond) {
  const Result<OperatorRequest> asked = ParseRequest(request, controller_.WallNow());
  if (!asked) return respond(Failed(asked.error()));
  ApplyTopology(controller_, keeper_, request, *asked, RespondBy(std::move(respond)));
}

void OperatorApi::HandlePost(const HttpRequest& request, io::HttpServer::Respond respond) {
  const Result<void> printable = CheckPrintable(request);
  if (!printable) return respond(Failed(printable.error()));
  if (request.path == kReload) return respond(reload_());
  if (request.path == kProbe) {
    return Probe(controller_, request, RespondBy(std::move(respond)));
  }
  if (request.path == kDiscover) return respond(OkOrFailed(StartDiscovery(controller_, request)));
  if (request.path == kLinkReports) {
    return HandleLinkReports(controller_, request.body, RespondBy(std::move(respond)));
  }
  if (request.path == kLinkLoads) {
    return respond(OkOrFailed(HandleLinkLoads(controller_, request.body)));
  }
  if (request.path == kSightings) {
    return respond(OkOrFailed(HandleSightingReport(controller_, request.body)));
  }
  if (request.path == kSchedules) {
    return respond(OkOrFailed(DeclareSchedule(controller_, request.body)));
  }
  if (request.path == kApplyTopology) return HandleTopology(request, std::move(respond));
  const auto actions = Actions();
  const auto action = std::find_if(actions.begin(), actions.end(),
                                   [&](const Action& one) { return one.path == request.path; });
  if (action == actions.end()) return respond(NoSuchPath(request));
  Act(controller_, *action, request, std::move(respond));
}

void OperatorApi::Act(Controller& controller, const Action& action, const HttpRequest& request,
                      io::HttpServer::Respond respond) {
  Result<OperatorRequest> asked = ParseRequest(request, controller.WallNow());
  if (!asked) return respond(Failed(asked.error()));
  if ((asked->until || asked->never_ends) && !action.takes_until) {
    return respond(Failed({ErrorCode::kInvalidArgument,
                           fmt::format("{} does not take `until` (it has no end)", action.path)}));
  }
  const bool dry_run = asked->dry_run;
  action.act(controller, request, *asked,
             [respond = std::move(respond), dry_run](const auto& outcome) {
               respond(outcome ? Ok(OutcomeView(*outcome, dry_run)) : Failed(outcome.error()));
             });
}

}  // namespace espalier::controller
