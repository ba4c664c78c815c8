// Tests the controller's process against mistakes and attacks, with real processes and sockets on
// loopback.
#include <array>

#include "common/files/json.h"
#include "tests/controller/daemon/daemon_fixture.h"

namespace espalier::controller {
namespace {

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
  ExpectRefusal("must be set together");
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
  const auto second = RunCommand(Program());
  EXPECT_NE(second.value().exit_code, 0);
  EXPECT_THAT(second.value().err, HasSubstr("store.db"));
  EXPECT_TRUE(io::HttpFetch("unix:" + Path("api.sock"), "GET", "/healthz", "", 60s));
}

TEST_F(Daemon, ChecksWithoutStarting) {
  const auto checked = RunCommand(Program({"--check"}));
  EXPECT_EQ(checked.value().exit_code, 0) << checked.value().err;
  EXPECT_FALSE(std::filesystem::exists(Path("store.db")));
  const std::string config = io::ReadFile(Path("c.conf")).value();
  std::ofstream(Path("c.conf")) << std::string(config).replace(
      config.find(Path("store.db")), Path("store.db").size(), Path("missing/store.db"));
  const auto without_folder = RunCommand(Program({"--check"}));
  EXPECT_EQ(without_folder.value().exit_code, 0) << "a service manager may create it";
  EXPECT_THAT(without_folder.value().err, HasSubstr("missing: the folder of the state file"));
  std::ofstream(Path("c.conf")) << config;
  std::filesystem::remove(Path("keys/controller.key"));
  EXPECT_EQ(RunCommand(Program({"--check"})).value().exit_code, 2);
}

// What the start refuses, the check refuses with the remedy, and a running controller does not.
TEST_F(Daemon, ChecksTheAddressesOnWhichItListens) {
  const std::string config = io::ReadFile(Path("c.conf")).value();
  const auto with = [&](const std::string& field, const std::string& value) {
    const std::string begin = field + ": \"";
    std::string text = config;
    const std::size_t at = text.find(begin) + begin.size();
    text.replace(at, text.find('"', at) - at, value);
    std::ofstream(Path("c.conf")) << text << "insecure_http: true\n";
    return RunCommand(Program({"--check"})).value();
  };
  for (const auto& [field, value, words] : std::vector<std::array<std::string, 3>>{
           {"listen", "10.255.0.1:7400", "(write \"tcp://10.255.0.1:7400\")"},
           {"listen", "tcp://192.0.2.1:7400", "is no address of this machine"},
           {"listen", "tcp://127.0.0.1", "has no port"},
           {"listen", "udp://127.0.0.1:7400", "another scheme"},
           {"listen", "tcp://127.0.0.1:74000", "74000"},
           {"http", "192.0.2.1:9180", "is no address of this machine"},
           {"http", "9180", "9180"}}) {
    const auto checked = with(field, value);
    EXPECT_EQ(checked.exit_code, 2) << value;
    EXPECT_THAT(checked.err, HasSubstr(words)) << value;
    EXPECT_THAT(checked.err, HasSubstr("c.conf: " + field)) << value;
  }
  EXPECT_EQ(with("listen", "tcp://*:7400").exit_code, 0);
  EXPECT_EQ(with("listen", "tcp://127.0.0.1:*").exit_code, 0);
  EXPECT_EQ(with("listen", "ipc:///run/x").exit_code, 0);
  BoundPort taken;
  taken.Listen();
  EXPECT_EQ(with("listen", "tcp://127.0.0.1:" + std::to_string(taken.number())).exit_code, 0);
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
  AwaitEvent("viewer does not have the role operator");
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

TEST_F(Daemon, ServesOthersWhileSlowClientsHoldTheirRequestsBack) {
  Start();
  std::vector<int> slow;
  for (int i = 0; i < 200; ++i) slow.push_back(Dial("GET /healthz HTT", http_port_));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Ask("GET", "/api/v1/status", Token(Role::kViewer)).status, 200);
  }
  for (const int fd : slow) close(fd);
}

TEST_F(Daemon, RefusesRequestsThatAreTooLargeOrMalformed) {
  Start();
  const std::string head = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
  EXPECT_THAT(Converse(head + "X: " + std::string(20'000, 'x') + "\r\n\r\n"), HasSubstr(" 431 "));
  EXPECT_THAT(Converse("POST /api/v1/login HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n"),
              HasSubstr(" 413 "));
  EXPECT_THAT(Converse("\x16\x03\x01 what\r\n\r\n"), HasSubstr(" 400 "));
  EXPECT_EQ(Ask("GET", "/healthz").status, 200);
}

TEST_F(Daemon, ServesNoFilesOutsideThePage) {
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

TEST_F(Daemon, TreatsScriptsInNamesAsText) {
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

// A certificate of localhost's own, and its key.
void MakeCertificate(const std::string& key, const std::string& certificate) {
  const auto made = RunCommand(
      {.argv = {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext",
                "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate}});
  ASSERT_TRUE(made && made->exit_code == 0) << (made ? made->err : made.error().message);
}

TEST_F(Daemon, SpeaksTlsWhereItHasACertificate) {
  MakeCertificate(Path("tls.key"), Path("tls.pem"));
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
  // A reload takes over the next certificate, but not an invalid one.
  const std::string first = Path("first.pem");
  const std::string second = Path("second.pem");
  std::filesystem::copy(Path("tls.pem"), first);
  const auto reload = [&](const std::string& ca) {
    const auto done = io::HttpFetch(
        "https://localhost" + port, "POST", "/api/v1/reload", "", 60s,
        {.headers = {{"Authorization", "Bearer " + Token(Role::kAdmin)}}, .ca_file = ca});
    EXPECT_TRUE(done && done->status == 200);
  };
  MakeCertificate(Path("tls.key"), Path("tls.pem"));
  std::filesystem::copy(Path("tls.pem"), second);
  reload(first);
  for (int i = 0; i < 600 && !ask("https://localhost" + port, second); ++i) {
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_TRUE(ask("https://localhost" + port, second));
  EXPECT_FALSE(ask("https://localhost" + port, first));
  std::ofstream(Path("tls.pem")) << "no certificate";
  reload(second);
  reload(second);  // answered after the thread of HTTP has read what the first one told it to
  EXPECT_TRUE(ask("https://localhost" + port, second));
}

}  // namespace
}  // namespace espalier::controller
