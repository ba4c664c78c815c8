#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time/wall_time.h"
#include "common/http/http.h"
#include "common/http/http_server.h"
#include "common/identity/access_tokens.h"
#include "controller/api/http/guarded_streams.h"
#include "controller/api/http/logins.h"
#include "controller/api/http/route.h"

namespace espalier::controller {

// Authenticates and authorises requests to the API, and passes on the caller's name.
//
// On a unix socket every caller is an admin under the name of their user; the mode of the socket
// decides who can connect. Over TCP the API and /metrics require a token ("Authorization: Bearer
// TOKEN", or the cookie that POST /api/v1/login gives for one); /healthz, /readyz and the files of
// the page do not. GET requires the role viewer, POST operator (reports of feeds: feed), and POST
// /api/v1/reload admin. A POST with a cookie must come from a page of this server, and so must a
// login or logout that a browser sends. A stream ends when its caller may no longer read it: before
// the next piece, or at the next Recheck.
//
// Adds POST /api/v1/login, POST /api/v1/logout, GET /api/v1/session.
// Thread safety: the loop's thread.
class HttpGuard {
 public:
  // Is called with the caller and the reason of each refused request.
  using OnRefusal = std::function<void(const std::string& peer, const std::string& reason)>;

  // `tokens` may change between requests; a removed token loses access at once.
  HttpGuard(const identity::AccessTokens& tokens, WallClock clock, OnRefusal on_refusal,
            io::HttpServer::LateHandler api)
      : tokens_(tokens),
        clock_(std::move(clock)),
        on_refusal_(std::move(on_refusal)),
        api_(std::move(api)),
        streams_([this](const io::HttpRequest& request) { return CallerOf(request).has_value(); }) {
  }

  void Handle(const io::HttpRequest& request, io::HttpServer::Respond respond);
  // The routes that it answers itself.
  static std::vector<Route> Routes();
  // For servers with TLS: tells browsers to send the cookie over TLS only, and to use TLS for a
  // day.
  void UseTls() { has_tls_ = true; }
  // Keeps logins in this file, so that they survive a restart; see Logins.
  void KeepLogins(std::string file) { logins_.KeepIn(std::move(file), clock_()); }
  // Ends the streams of callers whose token or login is no longer valid, and writes logins that
  // have changed to their file. Call it now and then, and at the end.
  void Recheck() {
    streams_.Recheck();
    logins_.Save();
  }

 private:
  struct Caller {
    std::string name;
    identity::Role role = identity::Role::kViewer;
    bool by_cookie = false;
  };
  std::optional<Caller> CallerOf(const io::HttpRequest& request) const;
  std::optional<Caller> CallerWith(const std::string& token_hash) const;
  // The response that refuses this request of this caller; none: it is allowed.
  std::optional<io::HttpResponse> Refuse(const io::HttpRequest& request,
                                         const std::optional<Caller>& caller);
  // The response to a request that a page of another server has made.
  io::HttpResponse RefusePage(const io::HttpRequest& request);
  io::HttpResponse LogIn(const io::HttpRequest& request);
  io::HttpResponse LogOut(const io::HttpRequest& request);

  const identity::AccessTokens& tokens_;
  const WallClock clock_;
  const OnRefusal on_refusal_;
  const io::HttpServer::LateHandler api_;
  Logins logins_;
  bool has_tls_ = false;
  GuardedStreams streams_;
};

}  // namespace espalier::controller
