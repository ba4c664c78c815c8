#include "controller/api/operator_api.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "common/io/json.h"
#include "controller/api/views.h"

namespace espalier::controller {
namespace {

using io::HttpRequest;
using io::HttpResponse;

constexpr std::string_view kPrefix = "/api/v1/";

HttpResponse Ok(std::string body) { return {200, "application/json", std::move(body)}; }

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
  return {StatusOf(error.code), "application/json", json.Text()};
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

std::optional<LinkAction> ParseLinkAction(std::string_view path) {
  if (path == "links/fail") return LinkAction::kFail;
  if (path == "links/restore") return LinkAction::kRestore;
  if (path == "links/drain") return LinkAction::kDrain;
  if (path == "links/undrain") return LinkAction::kUndrain;
  return std::nullopt;
}

std::optional<NodeAction> ParseNodeAction(std::string_view path) {
  if (path == "nodes/fail") return NodeAction::kFail;
  if (path == "nodes/restore") return NodeAction::kRestore;
  return std::nullopt;
}

}  // namespace

HttpResponse OperatorApi::Handle(const HttpRequest& request) {
  if (request.method == "GET") return HandleGet(request);
  if (request.method == "POST") return HandlePost(request);
  return NoSuchPath(request);
}

HttpResponse OperatorApi::HandleGet(const HttpRequest& request) {
  if (request.path == "/metrics") {
    controller_.RefreshMetrics();
    return {200, "text/plain; version=0.0.4", metrics_.Text()};
  }
  if (request.path == "/healthz" || request.path == "/readyz") {
    return {200, "text/plain", "ok\n"};
  }
  if (!request.path.starts_with(kPrefix)) return NoSuchPath(request);
  const std::string view = request.path.substr(kPrefix.size());
  if (view == "status") return Ok(StatusView(controller_));
  if (view == "flows") return Ok(FlowsView(controller_));
  if (view == "links") return Ok(LinksView(controller_));
  if (view == "agents") return Ok(AgentsView(controller_));
  if (view == "events" || view == "plans") {
    const std::string since = Query(request, "since");
    std::uint64_t sequence = 0;
    const auto parsed = std::from_chars(since.data(), since.data() + since.size(), sequence);
    if (!since.empty() && (parsed.ec != std::errc() || parsed.ptr != since.data() + since.size())) {
      return Failed({ErrorCode::kInvalidArgument, "since is a sequence number"});
    }
    return Ok(view == "events" ? EventsView(controller_, sequence)
                               : PlansView(controller_, sequence));
  }
  if (view == "flows/explain") {
    Result<std::string> explained = ExplainView(controller_, Query(request, "flow"));
    return explained ? Ok(std::move(*explained)) : Failed(explained.error());
  }
  return NoSuchPath(request);
}

HttpResponse OperatorApi::HandlePost(const HttpRequest& request) {
  if (!request.path.starts_with(kPrefix)) return NoSuchPath(request);
  const std::string_view action = std::string_view(request.path).substr(kPrefix.size());
  const Result<bool> dry_run = DryRun(request);
  if (!dry_run) return Failed(dry_run.error());
  const std::string id = Query(request, "id");
  const std::string reason = Query(request, "reason");
  Result<ActionOutcome> outcome = ActionOutcome{};
  if (action == "recompute") {
    outcome = controller_.Recompute(*dry_run);
  } else if (const auto link_action = ParseLinkAction(action)) {
    outcome = controller_.ChangeLink(id, *link_action, reason, *dry_run);
  } else if (const auto node_action = ParseNodeAction(action)) {
    outcome = controller_.ChangeNode(id, *node_action, reason, *dry_run);
  } else {
    return NoSuchPath(request);
  }
  return outcome ? Ok(OutcomeView(*outcome, *dry_run)) : Failed(outcome.error());
}

}  // namespace espalier::controller
