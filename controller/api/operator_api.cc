#include "controller/api/operator_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "common/io/json.h"
#include "controller/api/foresight_views.h"
#include "controller/api/forest_view.h"
#include "controller/api/job_view.h"
#include "controller/api/link_view.h"
#include "controller/api/page_files.h"
#include "controller/api/views.h"

namespace espalier::controller {
namespace {

using io::HttpRequest;
using io::HttpResponse;

constexpr std::string_view kPrefix = "/api/v1/";

HttpResponse Ok(std::string body) { return {200, "application/json", std::move(body), {}, {}}; }

int StatusOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kFailedPrecondition:
      return 409;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kResourceExhausted:
      return 429;
    default:
      return 500;
  }
}

HttpResponse Failed(const Error& error) {
  io::JsonWriter json;
  json.BeginObject().Key("error").BeginObject();
  json.Key("code").String(ErrorCodeName(error.code));
  json.Key("message").String(error.message);
  json.EndObject().EndObject();
  return {StatusOf(error.code), "application/json", json.Text(), {}, {}};
}

HttpResponse NoSuchPath(const HttpRequest& request) {
  return Failed(
      {ErrorCode::kNotFound, fmt::format("there is no {} {}", request.method, request.path)});
}

std::string Query(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

Result<bool> DryRun(const HttpRequest& request) {
  const std::string text = Query(request, "dry_run");
  if (text.empty() || text == "false") return false;
  if (text == "true") return true;
  return Fail(ErrorCode::kInvalidArgument, "dry_run is true or false");
}

// A number that may be absent.
Result<std::optional<std::uint64_t>> Number(const HttpRequest& request, const std::string& name) {
  const std::string text = Query(request, name);
  if (text.empty()) return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is a number from 0", name));
  }
  return number;
}

// What an action is asked with, whatever it is.
Result<OperatorRequest> ParseRequest(const HttpRequest& request, WallTime now) {
  const Result<bool> dry_run = DryRun(request);
  if (!dry_run) return tl::unexpected<Error>(dry_run.error());
  OperatorRequest asked{request.peer, Query(request, "reason"), std::nullopt, *dry_run};
  if (const std::string until = Query(request, "until"); !until.empty()) {
    Result<WallTime> time = ParseWallTime(until, now);
    if (!time) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("until: {}", time.error().message));
    }
    asked.until = *time;
  }
  return asked;
}

// A browser says which site's page asks; what is no browser says nothing.
bool IsFromElsewhere(const HttpRequest& request) {
  const auto origin = request.headers.find("origin");
  if (origin == request.headers.end()) return false;
  const auto host = request.headers.find("host");
  const std::string_view text = origin->second;
  const std::size_t begin = text.find("://");
  return host == request.headers.end() || begin == std::string_view::npos ||
         text.substr(begin + 3) != host->second;
}

// Nothing from elsewhere runs in the page, nothing is kept that the next version would contradict.
void AddSafety(HttpResponse& response) {
  response.headers.insert(
      response.headers.end(),
      {{"Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
       {"X-Content-Type-Options", "nosniff"},
       {"Referrer-Policy", "no-referrer"},
       {"Cache-Control", "no-store"}});
}

// "fail" of "links/fail", ...
std::optional<IntentAction> ParseIntentAction(std::string_view verb) {
  if (verb == "fail") return IntentAction::kFail;
  if (verb == "restore") return IntentAction::kRestore;
  if (verb == "drain") return IntentAction::kDrain;
  if (verb == "undrain") return IntentAction::kUndrain;
  return std::nullopt;
}

}  // namespace

void OperatorApi::Handle(const HttpRequest& request, io::HttpServer::Respond unsafe) {
  io::HttpServer::Respond respond = [unsafe = std::move(unsafe)](HttpResponse response) {
    AddSafety(response);
    unsafe(std::move(response));
  };
  if (request.method == "GET" && request.path == "/api/v1/audit") {
    return HandleAudit(request, std::move(respond));
  }
  if (request.method == "GET") return respond(HandleGet(request));
  if (request.method == "POST" && IsFromElsewhere(request)) {
    return respond(Failed({ErrorCode::kPermissionDenied, "a page of another site asks for this"}));
  }
  if (request.method == "POST") return HandlePost(request, std::move(respond));
  respond(NoSuchPath(request));
}

HttpResponse OperatorApi::HandleGet(const HttpRequest& request) {
  if (request.path == "/metrics") {
    controller_.RefreshMetrics();
    return {200, "text/plain; version=0.0.4", metrics_.Text(), {}, {}};
  }
  if (request.path == "/healthz" || request.path == "/readyz") {
    return {200, "text/plain", "ok\n", {}, {}};
  }
  if (const PageFile* file = FindPageFile(request.path)) {
    return {200, std::string(file->content_type), std::string(file->text), {}, {}};
  }
  if (!request.path.starts_with(kPrefix)) return NoSuchPath(request);
  return HandleView(request, std::string_view(request.path).substr(kPrefix.size()));
}

HttpResponse OperatorApi::OpenStream() {
  auto stream = feed_.Connect();
  if (!stream) {
    return Failed({ErrorCode::kResourceExhausted,
                   fmt::format("{} clients are connected already", LiveFeed::kMostClients)});
  }
  return {200, "text/event-stream", "", {}, std::move(stream)};
}

HttpResponse OperatorApi::HandleView(const HttpRequest& request, std::string_view view) {
  if (view == "status") return Ok(StatusView(controller_));
  if (view == "flows") return Ok(FlowsView(controller_));
  if (view == "topology") return Ok(TopologyView(controller_.state()));
  if (view == "jobs") return Ok(JobsView(controller_.state(), controller_.Now()));
  if (view == "forests") return Ok(ForestsView(controller_));
  if (view == "forests/plan") {
    Result<std::string> plan = ForestPlanView(controller_, Query(request, "job"));
    return plan ? Ok(std::move(*plan)) : Failed(plan.error());
  }
  if (view == "path-map") return Ok(PathMapView(controller_.state(), Query(request, "source")));
  if (view == "stream") return OpenStream();
  if (view == "openapi.json") return Ok(std::string(FindPageFile("/openapi.json")->text));
  if (view == "links") return Ok(LinksView(controller_));
  if (view == "agents") return Ok(AgentsView(controller_));
  if (view == "predict") return Ok(PredictView(controller_));
  if (view == "intents") return Ok(IntentsView(controller_));
  if (view == "policies") return Ok(PoliciesView(controller_));
  if (view == "events" || view == "plans") {
    const auto since = Number(request, "since");
    if (!since) return Failed(since.error());
    return Ok(view == "events" ? EventsView(controller_, since->value_or(0))
                               : PlansView(controller_, since->value_or(0)));
  }
  if (view == "flows/explain") {
    Result<std::string> explained = ExplainView(controller_, Query(request, "flow"));
    return explained ? Ok(std::move(*explained)) : Failed(explained.error());
  }
  return NoSuchPath(request);
}

void OperatorApi::HandleAudit(const HttpRequest& request, io::HttpServer::Respond respond) {
  constexpr std::size_t kMostEntries = 1'000;
  const auto since = Number(request, "since");
  if (!since) return respond(Failed(since.error()));
  controller_.ReadAudit(since->value_or(0), kMostEntries,
                        [respond = std::move(respond)](const auto& entries) {
                          respond(entries ? Ok(AuditView(*entries)) : Failed(entries.error()));
                        });
}

void OperatorApi::HandlePost(const HttpRequest& request, io::HttpServer::Respond respond) {
  if (!request.path.starts_with(kPrefix)) return respond(NoSuchPath(request));
  const std::string_view action = std::string_view(request.path).substr(kPrefix.size());
  const std::string_view kind = action.substr(0, action.find('/'));
  const auto verb = ParseIntentAction(action.substr(std::min(kind.size() + 1, action.size())));
  Result<OperatorRequest> asked = ParseRequest(request, controller_.WallNow());
  if (!asked) return respond(Failed(asked.error()));
  const ActionDone done = [respond, dry_run = asked->dry_run](const auto& outcome) {
    respond(outcome ? Ok(OutcomeView(*outcome, dry_run)) : Failed(outcome.error()));
  };
  if (action == "links/report") {
    Result<std::string> taken = TakeLinkReports(controller_, request.body);
    return respond(taken ? Ok(std::move(*taken)) : Failed(taken.error()));
  }
  const std::string id = Query(request, "id");
  if (kind == "links" && verb) return controller_.ChangeLink(id, *verb, std::move(*asked), done);
  if (kind == "nodes" && verb) return controller_.ChangeNode(id, *verb, std::move(*asked), done);
  if (action == "jobs/weight") {
    const auto weight = Number(request, "weight");
    if (!weight) return respond(Failed(weight.error()));
    return controller_.ChangeWeight(id, weight->value_or(0), std::move(*asked), done);
  }
  if (action == "policies/set") {
    return controller_.ChangePolicy(id, Query(request, "value"), std::move(*asked), done);
  }
  if (action == "policies/reset") {
    return controller_.ChangePolicy(id, std::nullopt, std::move(*asked), done);
  }
  if (asked->until) {
    return respond(Failed(
        {ErrorCode::kInvalidArgument, fmt::format("{} takes no time: it has no end", action)}));
  }
  if (action == "jobs/stop") return controller_.StopJob(id, std::move(*asked), done);
  if (action == "jobs/start") {
    Result<JobSpec> spec = ParseJobRequest(request.body);
    if (!spec) return respond(Failed(spec.error()));
    return controller_.StartJob(std::move(*spec), std::move(*asked), done);
  }
  if (action == "recompute") return controller_.Recompute(std::move(*asked), done);
  if (action == "rollback") {
    const auto revision = Number(request, "to");
    if (!revision) return respond(Failed(revision.error()));
    return controller_.RollBack(*revision, std::move(*asked), done);
  }
  respond(NoSuchPath(request));
}

}  // namespace espalier::controller
