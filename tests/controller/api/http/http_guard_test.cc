#include "controller/api/http/http_guard.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/trusted_files.h"
#include "tests/controller/api/live_api_fixture.h"
#include "tests/temporary_folder.h"

namespace espalier::controller {
namespace {

class GuardedApiTest : public LiveApiTest {};

TEST_F(GuardedApiTest, PagesOfOtherSitesCannotAct) {
  const std::map<std::string, std::string> link = {{"id", "leaf0--spine0"}};
  const auto from = [&](const std::string& origin) {
    return Call("POST", "/api/v1/links/fail", link,
                {{"host", "127.0.0.1:9180"}, {"origin", origin}})
        .status;
  };
  EXPECT_EQ(from("http://evil.example"), 403);
  EXPECT_EQ(from("null"), 403);
  EXPECT_EQ(from("http://127.0.0.1:9181"), 403);
  EXPECT_EQ(cluster_.state().topology.version(), 1);
  EXPECT_EQ(from("http://127.0.0.1:9180"), 200);
}

// A guard before an API that answers each request with the caller's name.
class HttpGuardTest : public testing::Test {
 protected:
  using Headers = std::map<std::string, std::string>;

  HttpGuardTest() {
    for (const auto& [name, role] :
         {std::pair("vi", identity::Role::kViewer), std::pair("fe", identity::Role::kFeed),
          std::pair("op", identity::Role::kOperator), std::pair("ad", identity::Role::kAdmin)}) {
      EXPECT_TRUE(tokens_.Add({.name = name,
                               .role = role,
                               .sha256 = identity::HashToken(std::string("esp_") + name),
                               .until = now_ + std::chrono::hours(24 * 30)}));
    }
  }
  io::HttpResponse Ask(const std::string& method, const std::string& path, Headers headers = {},
                       const std::string& body = "") {
    std::optional<io::HttpResponse> answer;
    guard_.Handle({.method = method,
                   .path = path,
                   .body = body,
                   .headers = std::move(headers),
                   .peer = "10.0.0.1"},
                  [&](io::HttpResponse response) { answer = std::move(response); });
    EXPECT_TRUE(answer.has_value()) << path;
    return answer.value_or(io::HttpResponse{});
  }
  static Headers Bearer(const std::string& token) { return {{"authorization", "Bearer " + token}}; }
  // The part of the cookie that a browser sends back.
  std::string LogIn(const std::string& token) {
    const io::HttpResponse answer = Ask("POST", "/api/v1/login", {}, token);
    EXPECT_EQ(answer.status, 200) << answer.body;
    const std::string cookie = CookieOf(answer);
    return cookie.substr(0, cookie.find(';'));
  }
  static std::string CookieOf(const io::HttpResponse& answer) {
    for (const auto& [name, value] : answer.headers) {
      if (name == "Set-Cookie") return value;
    }
    return "";
  }
  int StatusWithCookie(const std::string& cookie) {
    return Ask("GET", "/api/v1/flows", {{"cookie", cookie}}).status;
  }

  WallTime now_{std::chrono::seconds(1'795'253'938)};
  identity::AccessTokens tokens_;
  std::vector<std::string> refusals_;
  HttpGuard guard_{tokens_, [this] { return now_; },
                   [this](const std::string& peer, const std::string& reason) {
                     refusals_.push_back(peer + ": " + reason);
                   },
                   [](const io::HttpRequest& request, const io::HttpServer::Respond& respond) {
                     respond({.body = request.peer});
                   }};
};

TEST_F(HttpGuardTest, EachRoleHasItsRights) {
  struct Case {
    const char* method;
    const char* path;
    int anybody, viewer, feed, op, admin;
  };
  for (const Case& each :
       {Case{"GET", "/healthz", 200, 200, 200, 200, 200},
        Case{"GET", "/readyz", 200, 200, 200, 200, 200}, Case{"GET", "/", 200, 200, 200, 200, 200},
        Case{"GET", "/app.js", 200, 200, 200, 200, 200},
        Case{"GET", "/metrics", 401, 200, 200, 200, 200},
        Case{"GET", "/api/v1/flows", 401, 200, 200, 200, 200},
        Case{"GET", "/api/v1/session", 401, 200, 200, 200, 200},
        Case{"POST", "/api/v1/links/fail", 401, 403, 403, 200, 200},
        Case{"POST", "/api/v1/links/report", 401, 403, 200, 200, 200},
        Case{"POST", "/api/v1/links/load", 401, 403, 200, 200, 200},
        Case{"POST", "/api/v1/flows/seen", 401, 403, 200, 200, 200},
        Case{"POST", "/healthz", 401, 403, 403, 200, 200},
        Case{"DELETE", "/api/v1/flows", 401, 403, 403, 200, 200},
        Case{"POST", "/api/v1/reload", 401, 403, 403, 403, 200},
        Case{"POST", "/api/v1/topology/apply", 401, 403, 403, 403, 200}}) {
    SCOPED_TRACE(std::string(each.method) + " " + each.path);
    EXPECT_EQ(Ask(each.method, each.path).status, each.anybody);
    EXPECT_EQ(Ask(each.method, each.path, Bearer("esp_vi")).status, each.viewer);
    EXPECT_EQ(Ask(each.method, each.path, Bearer("esp_fe")).status, each.feed);
    EXPECT_EQ(Ask(each.method, each.path, Bearer("esp_op")).status, each.op);
    EXPECT_EQ(Ask(each.method, each.path, Bearer("esp_ad")).status, each.admin);
  }
}

TEST_F(HttpGuardTest, PassesTheCallersNameToTheApi) {
  EXPECT_EQ(Ask("GET", "/api/v1/flows", Bearer("esp_vi")).body, "vi");
  EXPECT_EQ(Ask("GET", "/healthz").body, "10.0.0.1");
  const auto session =
      io::ParseJson(Ask("GET", "/api/v1/session", Bearer("esp_op")).body, "session");
  EXPECT_EQ(session->Find("name")->text, "op");
  EXPECT_EQ(session->Find("role")->text, "operator");
}

TEST_F(HttpGuardTest, OnAUnixSocketEveryCallerIsAnAdmin) {
  std::optional<io::HttpResponse> answer;
  guard_.Handle({.method = "POST",
                 .path = "/api/v1/reload",
                 .headers = Bearer("esp_wrong"),
                 .from_unix_socket = true,
                 .peer = "user ada"},
                [&](io::HttpResponse response) { answer = std::move(response); });
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "user ada");
}

TEST_F(HttpGuardTest, ReportsWrongTokensButNotMissingOnes) {
  EXPECT_EQ(Ask("GET", "/api/v1/flows").status, 401);
  EXPECT_TRUE(refusals_.empty());
  EXPECT_EQ(Ask("GET", "/api/v1/flows", Bearer("esp_wrong")).status, 401);
  EXPECT_EQ(Ask("GET", "/api/v1/flows", {{"cookie", "espalier=x"}}).status, 401);
  EXPECT_EQ(Ask("POST", "/api/v1/login", {}, "esp_wrong").status, 401);
  EXPECT_EQ(refusals_, std::vector<std::string>(3, "10.0.0.1: wrong token"));
  Ask("POST", "/api/v1/recompute", Bearer("esp_vi"));
  EXPECT_EQ(refusals_.back(), "10.0.0.1: vi does not have the role operator");
}

TEST_F(HttpGuardTest, ARemovedTokenLosesAccess) {
  const std::string cookie = LogIn("esp_op");
  EXPECT_EQ(StatusWithCookie(cookie), 200);
  EXPECT_EQ(StatusWithCookie("other=1; " + cookie + "; more=2"), 200);
  ASSERT_TRUE(tokens_.Remove("op"));
  EXPECT_EQ(StatusWithCookie(cookie), 401);
  EXPECT_EQ(Ask("GET", "/api/v1/flows", Bearer("esp_op")).status, 401);
}

TEST_F(HttpGuardTest, ALoginLastsTwelveHoursAndUntilItIsEnded) {
  const std::string first = LogIn("esp_vi");
  const std::string second = LogIn("esp_vi");
  EXPECT_NE(first, second);
  EXPECT_NE(CookieOf(Ask("POST", "/api/v1/logout", {{"cookie", first}})).find("Max-Age=0"),
            std::string::npos);
  EXPECT_EQ(StatusWithCookie(first), 401);
  now_ += std::chrono::hours(12) - std::chrono::seconds(1);
  EXPECT_EQ(StatusWithCookie(second), 200);
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(StatusWithCookie(second), 401);
}

// Regression: 1,024 logins with one token once ended all others.
TEST_F(HttpGuardTest, ALoginSurvivesARestartButNotItsToken) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/store.db.logins";
  guard_.KeepLogins(file);
  const std::string cookie = LogIn("esp_op");
  guard_.Recheck();
  const std::string kept = *io::ReadFile(file);
  EXPECT_EQ(kept.find(cookie.substr(cookie.find('=') + 1)), std::string::npos)
      << "the file must not have the cookie itself";
  EXPECT_TRUE(io::ReadSecretFile(file).has_value()) << "only its owner may read it";

  const auto status = [&] {
    HttpGuard again(
        tokens_, [this] { return now_; }, [](const auto&, const auto&) {},
        [](const io::HttpRequest&, const io::HttpServer::Respond& respond) { respond({}); });
    again.KeepLogins(file);
    int code = 0;
    again.Handle({.method = "GET", .path = "/api/v1/status", .headers = {{"cookie", cookie}}},
                 [&](const io::HttpResponse& answer) { code = answer.status; });
    return code;
  };
  EXPECT_EQ(status(), 200);
  now_ += std::chrono::hours(13);
  EXPECT_EQ(status(), 401);
  now_ -= std::chrono::hours(13);
  ::chmod(file.c_str(), 0666);
  EXPECT_EQ(status(), 401) << "others could have written it";
  ::chmod(file.c_str(), 0600);
  ASSERT_TRUE(tokens_.Remove("op"));
  EXPECT_EQ(status(), 401);

  Ask("POST", "/api/v1/logout", {{"cookie", cookie}});
  guard_.Recheck();
  EXPECT_EQ(*io::ReadFile(file), "");
}

TEST_F(HttpGuardTest, AFileThatIsNoListOfLoginsCountsAsEmpty) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/store.db.logins";
  std::ofstream(file) << "a b c\n"
                      << std::string(64, 'f') << " " << std::string(64, '0') << " soon\n";
  ::chmod(file.c_str(), 0600);
  guard_.KeepLogins(file);
  EXPECT_EQ(Ask("GET", "/api/v1/status", {{"cookie", "espalier=a"}}).status, 401);
  guard_.KeepLogins(folder.path() + "/none");
  EXPECT_NE(LogIn("esp_op"), "");
}

TEST_F(HttpGuardTest, ManyLoginsWithOneTokenEndNoOthers) {
  const std::string others = LogIn("esp_op");
  std::vector<std::string> cookies;
  for (int i = 0; i < 1'100; ++i) {
    now_ += std::chrono::microseconds(1);
    cookies.push_back(LogIn("esp_vi"));
  }
  EXPECT_EQ(StatusWithCookie(others), 200);
  for (std::size_t i = 0; i < cookies.size(); ++i) {
    ASSERT_EQ(StatusWithCookie(cookies[i]), i + 32 < cookies.size() ? 401 : 200) << i;
  }
}

// Browsers do not send bearer tokens by themselves, so no foreign page can use one.
TEST_F(HttpGuardTest, OnlyACookieMustComeFromAPageOfThisServer) {
  const auto post = [&](Headers headers) {
    return Ask("POST", "/api/v1/recompute", std::move(headers)).status;
  };
  const std::string cookie = LogIn("esp_op");
  const std::string host = "fabric:9180";
  EXPECT_EQ(post(Bearer("esp_op")), 200);
  EXPECT_EQ(post({{"cookie", cookie}}), 403);
  EXPECT_EQ(post({{"cookie", cookie}, {"host", host}}), 403);
  EXPECT_EQ(post({{"cookie", cookie}, {"host", host}, {"origin", "https://evil"}}), 403);
  EXPECT_EQ(post({{"cookie", cookie}, {"host", ""}, {"origin", "https://"}}), 403);
  EXPECT_EQ(post({{"cookie", cookie}, {"host", host}, {"origin", host}}), 403);
  EXPECT_EQ(post({{"cookie", cookie}, {"host", host}, {"origin", "https://" + host}}), 200);
  EXPECT_EQ(Ask("GET", "/api/v1/flows", {{"cookie", cookie}, {"origin", "https://evil"}}).status,
            200);
  EXPECT_EQ(refusals_.back(), "10.0.0.1: request from a page of another server");
}

TEST_F(HttpGuardTest, CookiesAreForThisServerAndWithTlsForNoPlainConnection) {
  const auto cookie = [&] { return CookieOf(Ask("POST", "/api/v1/login", {}, "esp_vi")); };
  for (const char* part : {"; Path=/", "; HttpOnly", "; SameSite=Strict", "; Max-Age=43200"}) {
    EXPECT_NE(cookie().find(part), std::string::npos) << part;
  }
  EXPECT_EQ(cookie().find("Secure"), std::string::npos);
  const auto is_strict = [&](const char* method, const char* path) {
    const auto headers = Ask(method, path).headers;
    return std::ranges::count(headers, std::pair<std::string, std::string>(
                                           "Strict-Transport-Security", "max-age=86400")) == 1;
  };
  EXPECT_FALSE(is_strict("GET", "/"));
  guard_.UseTls();
  EXPECT_TRUE(cookie().ends_with("; Secure"));
  for (const auto& [method, path] : {std::pair("GET", "/"), std::pair("GET", "/api/v1/flows"),
                                     std::pair("POST", "/api/v1/login")}) {
    EXPECT_TRUE(is_strict(method, path)) << path;
  }
}

// Regression: a page on another port of this host could log an operator in or out.
TEST_F(HttpGuardTest, PagesOfOtherServersCannotLogInOrOut) {
  const std::string cookie = LogIn("esp_vi");
  const auto post = [&](const char* path, const std::string& origin) {
    return Ask("POST", path, {{"cookie", cookie}, {"host", "fabric:9180"}, {"origin", origin}},
               "esp_op");
  };
  for (const char* origin : {"http://fabric:3000", "https://evil", "null"}) {
    const io::HttpResponse login = post("/api/v1/login", origin);
    EXPECT_EQ(login.status, 403) << origin;
    EXPECT_EQ(CookieOf(login), "") << origin;
    EXPECT_EQ(post("/api/v1/logout", origin).status, 403) << origin;
  }
  EXPECT_EQ(StatusWithCookie(cookie), 200);
  EXPECT_EQ(refusals_.size(), 6U);
  EXPECT_EQ(post("/api/v1/login", "http://fabric:9180").status, 200);
  EXPECT_EQ(post("/api/v1/logout", "http://fabric:9180").status, 200);
  EXPECT_EQ(StatusWithCookie(cookie), 401);
}

TEST_F(HttpGuardTest, SaysWhoseCallerIsKnown) {
  EXPECT_FALSE(Ask("GET", "/").is_to_known_caller);
  EXPECT_FALSE(Ask("GET", "/api/v1/flows", Bearer("wrong")).is_to_known_caller);
  EXPECT_FALSE(Ask("POST", "/api/v1/login", {}, "wrong").is_to_known_caller);
  EXPECT_TRUE(Ask("GET", "/", Bearer("esp_vi")).is_to_known_caller);
  EXPECT_TRUE(Ask("POST", "/api/v1/recompute", Bearer("esp_vi")).is_to_known_caller) << "403";
  EXPECT_TRUE(Ask("POST", "/api/v1/login", {}, "esp_vi").is_to_known_caller);
}

// A stream that always has a piece.
class Endless : public io::HttpStream {
 public:
  std::shared_ptr<const std::string> Next() override {
    return std::make_shared<const std::string>("piece");
  }
};

// A guard before an API whose answers are streams without end.
class GuardedStreamTest : public HttpGuardTest {
 protected:
  struct Reader {
    std::shared_ptr<io::HttpStream> stream;
    std::shared_ptr<bool> has_ended = std::make_shared<bool>(false);
  };
  Reader Read(Headers headers) {
    Reader reader;
    streaming_.Handle({.method = "GET", .path = "/api/v1/stream", .headers = std::move(headers)},
                      [&](io::HttpResponse answer) { reader.stream = std::move(answer.stream); });
    reader.stream->end = [has_ended = reader.has_ended] { *has_ended = true; };
    return reader;
  }

  HttpGuard streaming_{tokens_, [this] { return now_; }, [](const auto&, const auto&) {},
                       [](const io::HttpRequest&, const io::HttpServer::Respond& respond) {
                         respond({.stream = std::make_shared<Endless>()});
                       }};
};

// Regression: a revoked token kept its live stream.
TEST_F(GuardedStreamTest, EndsBeforeTheNextPieceOnceItsTokenIsRevoked) {
  const Reader revoked = Read(Bearer("esp_vi"));
  const Reader other = Read(Bearer("esp_op"));
  EXPECT_NE(revoked.stream->Next(), nullptr);
  ASSERT_TRUE(tokens_.Remove("vi"));
  EXPECT_EQ(revoked.stream->Next(), nullptr);
  EXPECT_TRUE(*revoked.has_ended);
  EXPECT_NE(other.stream->Next(), nullptr);
  EXPECT_FALSE(*other.has_ended);
}

TEST_F(GuardedStreamTest, EndsWithoutAPieceWhenItIsRechecked) {
  const Reader expires = Read(Bearer("esp_vi"));
  streaming_.Recheck();
  EXPECT_FALSE(*expires.has_ended);
  now_ += std::chrono::hours(24 * 31);
  streaming_.Recheck();
  EXPECT_TRUE(*expires.has_ended);
}

TEST_F(GuardedStreamTest, EndsWithTheLogin) {
  std::string cookie;
  streaming_.Handle({.method = "POST", .path = "/api/v1/login", .body = "esp_vi"},
                    [&](const io::HttpResponse& answer) { cookie = CookieOf(answer); });
  const Headers headers = {{"cookie", cookie.substr(0, cookie.find(';'))}};
  const Reader reader = Read(headers);
  EXPECT_NE(reader.stream->Next(), nullptr);
  streaming_.Handle({.method = "POST", .path = "/api/v1/logout", .headers = headers},
                    [](const io::HttpResponse&) {});
  EXPECT_EQ(reader.stream->Next(), nullptr);
  EXPECT_TRUE(*reader.has_ended);
}

}  // namespace
}  // namespace espalier::controller
