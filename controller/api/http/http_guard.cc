#include "controller/api/http/http_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/files/json_writer.h"
#include "controller/api/http/page_safety.h"

namespace espalier::controller {
namespace {

using identity::Role;
using io::HttpRequest;
using io::HttpResponse;

constexpr Route kLogIn = {"POST", "/api/v1/login"};
constexpr Route kLogOut = {"POST", "/api/v1/logout"};
constexpr Route kSession = {"GET", "/api/v1/session"};
constexpr std::string_view kCookie = "espalier=";
constexpr std::string_view kBearer = "Bearer ";
constexpr auto kLoginLasts = std::chrono::hours(12);

bool Asks(const HttpRequest& request, const Route& route) {
  return request.method == route.method && request.path == route.path;
}

HttpResponse Failure(int status, std::string_view code, std::string_view message) {
  io::JsonWriter json;
  json.BeginObject().Key("error").BeginObject();
  json.Key("code").String(code);
  json.Key("message").String(message);
  json.EndObject().EndObject();
  return {status, "application/json", json.Text()};
}

std::string_view Header(const HttpRequest& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? std::string_view() : found->second;
}

// The cookie's value; "" for none.
std::string_view CookieOf(const HttpRequest& request) {
  std::string_view cookies = Header(request, "cookie");
  while (!cookies.empty()) {
    std::string_view cookie = cookies.substr(0, cookies.find(';'));
    cookies.remove_prefix(std::min(cookies.size(), cookie.size() + 1));
    while (cookie.starts_with(' ')) cookie.remove_prefix(1);
    if (cookie.starts_with(kCookie)) return cookie.substr(kCookie.size());
  }
  return "";
}

// Needs no token: health checks, and the page's files, which hold no data of the fabric.
bool IsOpen(const HttpRequest& request) {
  return request.method == "GET" && !request.path.starts_with("/api/") &&
         request.path != "/metrics";
}

Role RoleFor(const HttpRequest& request) {
  for (const std::string_view path : {"/api/v1/reload", "/api/v1/topology/apply"}) {
    if (request.path == path) return Role::kAdmin;
  }
  if (request.method == "GET") return Role::kViewer;
  // What feeds report is checked, and bounded by budgets.
  for (const std::string_view path :
       {"/api/v1/links/report", "/api/v1/links/load", "/api/v1/flows/seen"}) {
    if (request.path == path) return Role::kFeed;
  }
  return Role::kOperator;
}

// Adds the security headers that the API's responses have too.
HttpResponse WithSafeHeaders(HttpResponse response) {
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

}  // namespace

std::vector<Route> HttpGuard::Routes() { return {kLogIn, kLogOut, kSession}; }

void HttpGuard::Handle(const HttpRequest& request, io::HttpServer::Respond unfinished) {
  const std::optional<Caller> caller = CallerOf(request);
  const auto respond = [this, request, is_known = caller.has_value(),
                        unfinished = std::move(unfinished)](HttpResponse response) {
    response.is_to_known_caller = response.is_to_known_caller || is_known;
    if (has_tls_) response.headers.emplace_back("Strict-Transport-Security", "max-age=86400");
    if (response.stream) response.stream = streams_.Guard(std::move(response.stream), request);
    unfinished(std::move(response));
  };
  const auto answer = [respond](HttpResponse response) {
    respond(WithSafeHeaders(std::move(response)));
  };
  if (Asks(request, kLogIn) || Asks(request, kLogOut)) {
    if (IsFromForeignPage(request)) return answer(RefusePage(request));
    return answer(Asks(request, kLogIn) ? LogIn(request) : LogOut(request));
  }
  if (std::optional<HttpResponse> refused = Refuse(request, caller)) {
    return answer(std::move(*refused));
  }
  if (Asks(request, kSession)) {
    io::JsonWriter json;
    json.BeginObject();
    json.Key("name").String(caller->name);
    json.Key("role").String(RoleName(caller->role));
    json.Key("by_cookie").Bool(caller->by_cookie);
    json.EndObject();
    return answer({.body = json.Text()});
  }
  HttpRequest named = request;
  if (caller) named.peer = caller->name;
  api_(named, respond);
}

std::optional<HttpGuard::Caller> HttpGuard::CallerWith(const std::string& token_hash) const {
  const identity::AccessToken* const token = tokens_.FindByHash(token_hash, clock_());
  if (token == nullptr) return std::nullopt;
  return Caller{token->name, token->role, false};
}

std::optional<HttpGuard::Caller> HttpGuard::CallerOf(const HttpRequest& request) const {
  if (request.from_unix_socket) return Caller{request.peer, Role::kAdmin, false};
  const std::string_view authorization = Header(request, "authorization");
  if (authorization.starts_with(kBearer)) {
    return CallerWith(identity::HashToken(authorization.substr(kBearer.size())));
  }
  const std::string_view cookie = CookieOf(request);
  if (cookie.empty()) return std::nullopt;
  const std::optional<std::string> token_hash = logins_.Find(cookie, clock_());
  if (!token_hash) return std::nullopt;
  std::optional<Caller> caller = CallerWith(*token_hash);
  if (caller) caller->by_cookie = true;
  return caller;
}

std::optional<HttpResponse> HttpGuard::Refuse(const HttpRequest& request,
                                              const std::optional<Caller>& caller) {
  if (IsOpen(request)) return std::nullopt;
  if (!caller) {
    const bool tried = !Header(request, "authorization").empty() || !CookieOf(request).empty();
    if (tried) on_refusal_(request.peer, "wrong token");
    HttpResponse refused =
        Failure(401, "unauthenticated",
                tried ? "the token is unknown, expired or revoked"
                      : "a token is required (make one with `espalier token make` and name its "
                        "file in $ESPALIER_TOKEN_FILE)");
    refused.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"espalier\"");
    return refused;
  }
  if (caller->role < RoleFor(request)) {
    on_refusal_(request.peer, fmt::format("{} does not have the role {}", caller->name,
                                          RoleName(RoleFor(request))));
    return Failure(403, "permission denied",
                   fmt::format("{} has the role {}, but this request requires the role {}",
                               caller->name, RoleName(caller->role), RoleName(RoleFor(request))));
  }
  if (request.method != "GET" && caller->by_cookie && !IsFromOwnPage(request)) {
    return RefusePage(request);
  }
  return std::nullopt;
}

HttpResponse HttpGuard::RefusePage(const HttpRequest& request) {
  on_refusal_(request.peer, "request from a page of another server");
  return Failure(403, "permission denied", "the request comes from a page of another server");
}

HttpResponse HttpGuard::LogIn(const HttpRequest& request) {
  const std::string hash = identity::HashToken(request.body);
  const std::optional<Caller> caller = CallerWith(hash);
  if (!caller) {
    on_refusal_(request.peer, "wrong token");
    return Failure(401, "unauthenticated", "the token is unknown, expired or revoked");
  }
  const std::string cookie = identity::MakeToken();
  logins_.Add(cookie, hash, clock_() + kLoginLasts, clock_());
  logins_.SaveIfDue(clock_());
  HttpResponse response{.body = fmt::format("{{\"role\": \"{}\"}}\n", RoleName(caller->role)),
                        .is_to_known_caller = true};
  response.headers.emplace_back(
      "Set-Cookie",
      fmt::format("{}{}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{}", kCookie, cookie,
                  std::chrono::seconds(kLoginLasts).count(), has_tls_ ? "; Secure" : ""));
  return response;
}

HttpResponse HttpGuard::LogOut(const HttpRequest& request) {
  logins_.Remove(CookieOf(request));
  logins_.SaveIfDue(clock_());
  HttpResponse response{.body = "{}\n"};
  response.headers.emplace_back("Set-Cookie",
                                fmt::format("{}; Path=/; HttpOnly; Max-Age=0", kCookie));
  return response;
}

}  // namespace espalier::controller
