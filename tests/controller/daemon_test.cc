// The controller's process among people who make mistakes, and people who mean harm: real
// processes and sockets on loopback.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "common/identity/key_folder.h"
#include "common/io/http.h"
#include "common/io/json.h"
#include "deploy/lab/command.h"
#include "tests/temporary_folder.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using identity::Role;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kTopology = R"({"name": "evil", "version": 1, "nodes": [
  {"id": "<script>alert(1)</script>", "kind": "COMPUTE", "addresses": ["10.0.0.1"]},
  {"id": "h1", "kind": "COMPUTE", "addresses": ["10.0.0.2"]},
  {"id": "leaf0", "kind": "SWITCH", "role": "LEAF"}, {"id": "leaf1", "kind": "SWITCH",
  "role": "LEAF"}, {"id": "spine0", "kind": "SWITCH", "role": "SPINE"}], "links": [
  {"a": "<script>alert(1)</script>", "b": "leaf0", "gbps": 100}, {"a": "h1", "b": "leaf1",
  "gbps": 100}, {"a": "leaf0", "b": "spine0", "gbps": 100}, {"a": "leaf1", "b": "spine0",
  "gbps": 100}]})";

// A TCP port of loopback that is bound for as long as this lives.
class BoundPort {
 public:
  BoundPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    number_ = ntohs(address.sin_port);
  }
  ~BoundPort() { close(fd_); }
  int number() const { return number_; }
  void Listen() { EXPECT_EQ(listen(fd_, 1), 0); }

 private:
  int fd_;
  int number_ = 0;
};

class Daemon : public testing::Test {
 protected:
  Daemon() {
    std::ofstream(Path("topology.json")) << kTopology;
    identity::KeyFolder keys = identity::KeyFolder::Open(Path("keys")).value();
    EXPECT_TRUE(keys.MakeController(SystemWallTime()));
    for (const Role role : {Role::kViewer, Role::kOperator, Role::kAdmin}) {
      tokens_.push_back(
          keys.MakeToken(std::string(RoleName(role)), role, {}, SystemWallTime()).value());
    }
    bus_port_ = BoundPort().number();
    http_port_ = BoundPort().number();
    WriteConfig("");
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string Tcp() const { return "127.0.0.1:" + std::to_string(http_port_); }

  void WriteConfig(const std::string& more) {
    std::ofstream(Path("c.conf")) << "topology_file: \"" << Path("topology.json")
                                  << "\"\nstate_file: \"" << Path("store.db")
                                  << "\"\nkey_folder: \"" << Path("keys")
                                  << "\"\nlisten: \"tcp://127.0.0.1:" << bus_port_
                                  << "\"\nhttp: \"unix:" << Path("api.sock") << "\"\nhttp: \""
                                  << Tcp() << "\"\nlog_level: \"error\"\n"
                                  << more;
  }

  lab::Command Program(std::vector<std::string> more = {}) const {
    lab::Command command;
    command.argv = {ESPALIER_PROGRAMS "/espalier-controller", "--config", Path("c.conf")};
    command.argv.insert(command.argv.end(), more.begin(), more.end());
    return command;
  }

  // Where it should not start.
  void ExpectRefusal(const std::string& what) {
    const auto before = Contents();
    const auto ended = lab::RunCommand(Program());
    ASSERT_TRUE(ended) << ended.error().message;
    EXPECT_THAT(ended->exit_code, testing::AnyOf(1, 2));
    EXPECT_THAT(ended->err, HasSubstr(what));
    EXPECT_TRUE(Contents() == before) << "after: " << what;  // without printing files
  }

  // Every file's bytes; what says that a process runs is none of them.
  std::map<std::string, std::string> Contents() const {
    std::map<std::string, std::string> contents;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      const std::string path = entry.path();
      if (!entry.is_regular_file() || path.ends_with(".lock")) continue;
      contents[path] = io::ReadFile(path).value();
    }
    return contents;
  }

  void Start() {
    auto started = lab::ChildProcess::Start(Program());
    ASSERT_TRUE(started) << started.error().message;
    process_ = std::move(*started);
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!io::HttpFetch("unix:" + Path("api.sock"), "GET", "/healthz", "", 10s)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(5ms);
    }
  }

  // The status over TCP; `token`: one of tokens_, or any text.
  io::HttpResponse Ask(const std::string& method, const std::string& target,
                       const std::string& token = "", io::HttpAccess access = {}) {
    if (!token.empty()) access.headers.emplace_back("Authorization", "Bearer " + token);
    auto answer = io::HttpFetch(Tcp(), method, target, "", 60s, access);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer.value_or(io::HttpResponse{.status = 0});
  }
  const std::string& Token(Role role) const { return tokens_[static_cast<std::size_t>(role)]; }

  std::string Events() {
    return io::HttpFetch("unix:" + Path("api.sock"), "GET", "/api/v1/events?since=0", "", 60s)
        .value()
        .body;
  }
  void AwaitEvent(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (Events().find(text) == std::string::npos) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << text << " in " << Events();
      std::this_thread::sleep_for(5ms);
    }
  }

  // A TCP connection that says this and nothing more.
  int Dial(std::string_view text, int port) const {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_GE(send(fd, text.data(), text.size(), MSG_NOSIGNAL), 0);
    return fd;
  }
  // All that comes back until the other side closes.
  std::string Converse(std::string_view text) const {
    const int fd = Dial(text, http_port_);
    std::string answer;
    char byte = 0;
    while (recv(fd, &byte, 1, 0) == 1) answer += byte;
    close(fd);
    return answer;
  }

  TemporaryFolder folder_;
  std::vector<std::string> tokens_;  // by role
  int bus_port_ = 0;
  int http_port_ = 0;
  std::optional<lab::ChildProcess> process_;
};

TEST_F(Daemon, RefusesClearlyAndChangesNothing) {
  chmod(Path("keys/controller.key").c_str(), 0644);
  ExpectRefusal("chmod 600 " + Path("keys/controller.key"));
  chmod(Path("keys/controller.key").c_str(), 0600);
  chmod(Path("keys/agents.pub").c_str(), 0666);
  ExpectRefusal("chmod go-w " + Path("keys/agents.pub"));
  chmod(Path("keys/agents.pub").c_str(), 0644);
  chmod(Path("keys/tokens").c_str(), 0604);
  ExpectRefusal("chmod 600 " + Path("keys/tokens"));
  chmod(Path("keys/tokens").c_str(), 0600);
  WriteConfig("http: \"0.0.0.0:9180\"\n");
  ExpectRefusal("tls_certificate_file");
  WriteConfig("tls_key_file: \"x\"\n");
  ExpectRefusal("go together");
  WriteConfig("no_such_field: 1\n");
  ExpectRefusal("c.conf:");
  WriteConfig("");
  std::ofstream(Path("store.db")) << std::string(8192, 'x');
  ExpectRefusal("store.db");
  std::filesystem::remove(Path("store.db"));
  std::filesystem::rename(Path("keys"), Path("elsewhere"));
  ExpectRefusal("espalier keys make");
}

TEST_F(Daemon, RefusesAPortThatIsTaken) {
  BoundPort taken;
  taken.Listen();
  bus_port_ = taken.number();
  WriteConfig("");
  ExpectRefusal(std::to_string(taken.number()));
  bus_port_ = BoundPort().number();
  http_port_ = taken.number();
  WriteConfig("");
  ExpectRefusal(std::to_string(taken.number()));
}

TEST_F(Daemon, RefusesAFolderThatCannotBeWritten) {
  const std::string config = io::ReadFile(Path("c.conf")).value();
  std::ofstream(Path("c.conf")) << std::string(config).replace(
      config.find(Path("store.db")), Path("store.db").size(), "/proc/espalier/store.db");
  ExpectRefusal("/proc/espalier");
}

TEST_F(Daemon, RefusesASecondControllerOnOneStore) {
  Start();
  std::ofstream(Path("c.conf")) << "topology_file: \"" << Path("topology.json")
                                << "\" state_file: \"" << Path("store.db") << "\" key_folder: \""
                                << Path("keys") << "\" listen: \"tcp://127.0.0.1:*\" http: \"unix:"
                                << Path("other.sock") << "\"";
  const auto second = lab::RunCommand(Program());
  EXPECT_NE(second.value().exit_code, 0);
  EXPECT_THAT(second.value().err, HasSubstr("store.db"));
  EXPECT_TRUE(io::HttpFetch("unix:" + Path("api.sock"), "GET", "/healthz", "", 60s));
}

TEST_F(Daemon, ChecksWithoutStarting) {
  const auto checked = lab::RunCommand(Program({"--check"}));
  EXPECT_EQ(checked.value().exit_code, 0) << checked.value().err;
  EXPECT_FALSE(std::filesystem::exists(Path("store.db")));
  std::filesystem::remove(Path("keys/controller.key"));
  EXPECT_EQ(lab::RunCommand(Program({"--check"})).value().exit_code, 2);
}

TEST_F(Daemon, GivesEachRoleItsPart) {
  Start();
  const std::string fail = "/api/v1/links/fail?id=leaf0--spine0&dry_run=true";
  struct Case {
    std::string token;
    std::string method;
    std::string target;
    int status;
  };
  const std::string wrong = "esp_" + std::string(64, '0');
  for (const Case& c : std::vector<Case>{
           {"", "GET", "/healthz", 200},
           {"", "GET", "/api/v1/status", 401},
           {"", "GET", "/metrics", 401},
           {"", "POST", fail, 401},
           {"", "POST", "/api/v1/reload", 401},
           {wrong, "GET", "/api/v1/status", 401},
           {wrong, "POST", fail, 401},
           {Token(Role::kViewer), "GET", "/api/v1/status", 200},
           {Token(Role::kViewer), "GET", "/metrics", 200},
           {Token(Role::kViewer), "POST", fail, 403},
           {Token(Role::kViewer), "POST", "/api/v1/recompute", 403},
           {Token(Role::kOperator), "POST", fail, 200},
           {Token(Role::kOperator), "POST", "/api/v1/reload", 403},
           {Token(Role::kAdmin), "POST", fail, 200},
           {Token(Role::kAdmin), "POST", "/api/v1/reload", 200},
       }) {
    const io::HttpResponse answer = Ask(c.method, c.target, c.token);
    EXPECT_EQ(answer.status, c.status) << c.method << " " << c.target << " " << answer.body;
  }
  AwaitEvent("viewer is no operator");
  AwaitEvent("wrong token");
}

TEST_F(Daemon, NamesWhoActsByTheirToken) {
  Start();
  ASSERT_EQ(Ask("POST", "/api/v1/links/fail?id=leaf0--spine0", Token(Role::kOperator)).status, 200);
  EXPECT_THAT(Ask("GET", "/api/v1/audit", Token(Role::kViewer)).body, HasSubstr("\"operator\""));
}

TEST_F(Daemon, LogsInByCookieForItsOwnPagesOnly) {
  Start();
  const auto denied = io::HttpFetch(Tcp(), "POST", "/api/v1/login", "wrong", 60s);
  EXPECT_EQ(denied.value().status, 401);
  const auto login = io::HttpFetch(Tcp(), "POST", "/api/v1/login", Token(Role::kOperator), 60s);
  ASSERT_EQ(login.value().status, 200);
  std::string cookie;
  for (const auto& [name, value] : login->headers) {
    if (name == "Set-Cookie") cookie = value;
  }
  EXPECT_THAT(cookie, HasSubstr("HttpOnly; SameSite=Strict"));
  EXPECT_THAT(cookie, Not(HasSubstr(Token(Role::kOperator))));
  const std::string pair = cookie.substr(0, cookie.find(';'));
  const std::string act = "/api/v1/recompute?dry_run=true";
  EXPECT_EQ(Ask("GET", "/api/v1/status", "", {.headers = {{"Cookie", pair}}}).status, 200);
  EXPECT_EQ(Ask("POST", act, "", {.headers = {{"Cookie", pair}}}).status, 403);
  EXPECT_EQ(Ask("POST", act, "", {.headers = {{"Cookie", pair}, {"Origin", "http://evil"}}}).status,
            403);
  EXPECT_EQ(
      Ask("POST", act, "", {.headers = {{"Cookie", pair}, {"Origin", "http://" + Tcp()}}}).status,
      200);
  EXPECT_EQ(Ask("POST", "/api/v1/logout", "", {.headers = {{"Cookie", pair}}}).status, 200);
  EXPECT_EQ(Ask("GET", "/api/v1/status", "", {.headers = {{"Cookie", pair}}}).status, 401);
}

TEST_F(Daemon, ReloadsWhatMayChangeAndOnlyIfAllOfItIsRight) {
  Start();
  EXPECT_EQ(Ask("GET", "/api/v1/status", Token(Role::kViewer)).status, 200);
  EXPECT_TRUE(identity::KeyFolder::Open(Path("keys")).value().RevokeToken("viewer"));
  WriteConfig("moves_per_start: seven\n");
  EXPECT_EQ(Ask("POST", "/api/v1/reload", Token(Role::kAdmin)).status, 409);
  EXPECT_EQ(Ask("GET", "/api/v1/status", Token(Role::kViewer)).status, 200);
  WriteConfig("moves_per_start: 7 heartbeat_ms: 500\n");
  EXPECT_EQ(Ask("POST", "/api/v1/reload", Token(Role::kAdmin)).status, 200);
  EXPECT_EQ(Ask("GET", "/api/v1/status", Token(Role::kViewer)).status, 401);
  EXPECT_THAT(Events(), HasSubstr("need_restart=heartbeat_ms"));
  EXPECT_THAT(Events(), HasSubstr("reload_refused"));
}

TEST_F(Daemon, ServesOthersWhileSlowClientsHoldTheirRequestsBack) {
  Start();
  std::vector<int> slow;
  for (int i = 0; i < 200; ++i) slow.push_back(Dial("GET /healthz HTT", http_port_));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Ask("GET", "/api/v1/status", Token(Role::kViewer)).status, 200);
  }
  for (const int fd : slow) close(fd);
}

TEST_F(Daemon, RefusesRequestsThatAreTooLargeOrNone) {
  Start();
  const std::string head = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
  EXPECT_THAT(Converse(head + "X: " + std::string(20'000, 'x') + "\r\n\r\n"), HasSubstr(" 431 "));
  EXPECT_THAT(Converse("POST /api/v1/login HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n"),
              HasSubstr(" 413 "));
  EXPECT_THAT(Converse("\x16\x03\x01 what\r\n\r\n"), HasSubstr(" 400 "));
  EXPECT_EQ(Ask("GET", "/healthz").status, 200);
}

TEST_F(Daemon, LeadsToNoFile) {
  Start();
  for (const std::string target :
       {"/../../../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd", "/api/v1/../../etc/passwd", "/keys/tokens", "/./keys/controller.key"}) {
    const io::HttpResponse answer = Ask("GET", target, Token(Role::kAdmin));
    EXPECT_THAT(answer.body, Not(HasSubstr("root:"))) << target;
    EXPECT_THAT(answer.body, Not(HasSubstr("secret_key"))) << target;
    EXPECT_NE(answer.status, 200) << target;
  }
}

TEST_F(Daemon, HandsScriptsInNamesOnAsText) {
  Start();
  const io::HttpResponse links = Ask("GET", "/api/v1/links", Token(Role::kViewer));
  EXPECT_EQ(links.content_type, "application/json");
  EXPECT_TRUE(io::ParseJson(links.body, "links"));
  bool has_nosniff = false;
  for (const auto& [name, value] : links.headers) {
    has_nosniff = has_nosniff || (name == "X-Content-Type-Options" && value == "nosniff");
  }
  EXPECT_TRUE(has_nosniff);
  const io::HttpResponse refused = Ask(
      "POST", "/api/v1/links/fail?id=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&reason=%3Cscript%3E",
      Token(Role::kOperator));
  EXPECT_EQ(refused.status, 404);
  EXPECT_EQ(refused.content_type, "application/json");
}

TEST_F(Daemon, LivesThroughNoiseOnTheAgentsPort) {
  Start();
  std::vector<int> strangers;
  for (int i = 0; i < 64; ++i) {
    std::string noise(static_cast<std::size_t>(1 + i * 40), static_cast<char>(i * 37));
    if (i % 2 == 0) noise.front() = '\xff';
    strangers.push_back(Dial(noise, bus_port_));
  }
  EXPECT_EQ(Ask("GET", "/healthz").status, 200);
  for (const int fd : strangers) close(fd);
  AwaitEvent("peer_refused");
}

TEST_F(Daemon, SpeaksTlsWhereItHasACertificate) {
  const auto made =
      lab::RunCommand({.argv = {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                                "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj",
                                "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                                "-keyout", Path("tls.key"), "-out", Path("tls.pem")}});
  ASSERT_TRUE(made && made->exit_code == 0) << (made ? made->err : made.error().message);
  WriteConfig("tls_certificate_file: \"" + Path("tls.pem") + "\" tls_key_file: \"" +
              Path("tls.key") + "\"\n");
  chmod(Path("tls.key").c_str(), 0644);
  ExpectRefusal("chmod 600 " + Path("tls.key"));
  chmod(Path("tls.key").c_str(), 0600);
  Start();
  const std::string port = ":" + std::to_string(http_port_);
  const auto ask = [&](const std::string& address, const std::string& ca) {
    return io::HttpFetch(
        address, "GET", "/api/v1/status", "", 60s,
        {.headers = {{"Authorization", "Bearer " + Token(Role::kViewer)}}, .ca_file = ca});
  };
  const auto good = ask("https://localhost" + port, Path("tls.pem"));
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->status, 200);
  EXPECT_EQ(ask("https://localhost" + port, "").error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(ask("https://127.0.0.1" + port, Path("tls.pem")).error().code,
            ErrorCode::kPermissionDenied);  // it is no certificate for this name
  EXPECT_FALSE(ask("127.0.0.1" + port, ""));
}

}  // namespace
}  // namespace espalier::controller
