#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/wall_time.h"
#include "common/http/http.h"
#include "common/identity/access_tokens.h"
#include "controller/api/http/route.h"

namespace espalier::controller {

// Stands before the API: lets through who may ask for it, and names them to it.
//
// On a unix socket everybody is an admin, by the name of their user: the socket's mode says who
// that can be. Over TCP the API and /metrics want a token ("Authorization: Bearer TOKEN", or the
// cookie that POST /api/v1/login gives for one); /healthz, /readyz and the page's own files do not.
// GET is for viewers, POST for operators, POST /api/v1/reload for admins. Where a cookie says who
// asks, a POST must come from a page of this server.
//
// Adds POST /api/v1/login, POST /api/v1/logout, GET /api/v1/session.
// Thread safety: the loop's thread.
class HttpGuard {
 public:
  // A request that was not let through: who asked, and what was wrong.
  using OnRefusal = std::function<void(const std::string& peer, const std::string& reason)>;

  // `tokens` may change between requests: who has lost their token is out.
  HttpGuard(const identity::AccessTokens& tokens, WallClock clock, OnRefusal on_refusal,
            io::HttpServer::LateHandler api)
      : tokens_(tokens),
        clock_(std::move(clock)),
        on_refusal_(std::move(on_refusal)),
        api_(std::move(api)) {}

  void Handle(const io::HttpRequest& request, io::HttpServer::Respond respond);
  // What it answers itself.
  static std::vector<Route> Routes();
  // For servers that speak TLS: browsers are to keep the cookie off plain connections.
  void UseSecureCookies() { secure_cookies_ = true; }

 private:
  struct Caller {
    std::string name;
    identity::Role role = identity::Role::kViewer;
    bool by_cookie = false;
  };
  struct Login {
    std::string token_hash;
    WallTime until;
  };

  std::optional<Caller> CallerOf(const io::HttpRequest& request) const;
  std::optional<Caller> CallerWith(const std::string& token_hash) const;
  // What is wrong with this request of this caller, or none.
  std::optional<io::HttpResponse> Refuse(const io::HttpRequest& request,
                                         const std::optional<Caller>& caller);
  io::HttpResponse LogIn(const io::HttpRequest& request);
  io::HttpResponse LogOut(const io::HttpRequest& request);
  // Makes room for another login with this token.
  void DropOldLogins(const std::string& token_hash);

  const identity::AccessTokens& tokens_;
  const WallClock clock_;
  const OnRefusal on_refusal_;
  const io::HttpServer::LateHandler api_;
  std::unordered_map<std::string, Login> logins_;  // by the hash of the cookie's value
  bool secure_cookies_ = false;
};

}  // namespace espalier::controller
