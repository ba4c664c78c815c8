// Strangers and viewers at the HTTP servers of the real controller and agent, by hand on sockets.
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "tests/controller/daemon/daemon_fixture.h"

namespace espalier::controller {
namespace {

class HttpUnderAttack : public Daemon {
 protected:
  ~HttpUnderAttack() override {
    for (const int fd : open_) close(fd);
  }

  // Asks for a large answer many times, and reads nothing.
  void Crowd(const std::string& path, int port) {
    std::string requests;
    for (int i = 0; i < 400; ++i) requests += "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n";
    open_.push_back(Dial(requests, port));
  }
  // Opens a live stream, and returns the status line of the answer.
  std::string OpenStream(const std::string& token) {
    open_.push_back(Dial(
        "GET /api/v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\n\r\n",
        http_port_));
    std::string line;
    char byte = 0;
    while (byte != '\n' && recv(open_.back(), &byte, 1, 0) == 1) line += byte;
    return line.substr(0, line.find('\r'));
  }
  // Reads until the other side ends the connection; false if it is silent for a minute.
  static bool AwaitEnd(int fd) {
    const timeval patience{60, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    std::array<char, 65'536> bytes;
    ssize_t got = 0;
    while ((got = recv(fd, bytes.data(), bytes.size(), 0)) > 0) continue;
    return got == 0 || errno == ECONNRESET;
  }

  std::vector<int> open_;
};

TEST_F(HttpUnderAttack, StrangersWhoReadNothingKeepNobodyFromTheController) {
  Start();
  for (int i = 0; i < 64; ++i) {
    Crowd("/app.js", http_port_);
    if (i % 8 != 7) continue;
    EXPECT_EQ(Ask("GET", "/healthz").status, 200) << i;
    EXPECT_EQ(Ask("GET", "/api/v1/status", Token(Role::kOperator)).status, 200) << i;
  }
}

TEST_F(HttpUnderAttack, StrangersWhoReadNothingKeepNobodyFromTheLivenessOfAnAgent) {
  const int port = BoundPort().number();
  const std::string http = "127.0.0.1:" + std::to_string(port);
  std::ofstream(Path("a.conf")) << "name: \"h1\" nic: \"lo\" no_probing: true log_level: \"error\" "
                                << "controller: \"tcp://127.0.0.1:" << bus_port_ << "\" "
                                << "insecure_plaintext: true http: \"" << http << "\" "
                                << "local_socket: \"" << Path("agent.sock") << "\"";
  auto agent = ChildProcess::Start(
      {.argv = {ESPALIER_PROGRAMS "/espalier-agent", "--config", Path("a.conf")}});
  ASSERT_TRUE(agent) << agent.error().message;
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!io::HttpFetch(http, "GET", "/healthz", "", 10s)) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(5ms);
  }
  for (int i = 0; i < 64; ++i) {
    Crowd("/metrics", port);
    if (i % 5 != 4) continue;
    const auto alive = io::HttpFetch(http, "GET", "/healthz", "", 60s);
    EXPECT_TRUE(alive && alive->status == 200) << i;
  }
}

TEST_F(HttpUnderAttack, OneTokenCannotHoldAllLiveStreams) {
  Start();
  for (int i = 0; i < 32; ++i) {
    ASSERT_EQ(OpenStream(Token(Role::kViewer)), "HTTP/1.1 200 OK") << i;
  }
  EXPECT_THAT(OpenStream(Token(Role::kViewer)), HasSubstr("429"));
  EXPECT_EQ(OpenStream(Token(Role::kOperator)), "HTTP/1.1 200 OK");
  EXPECT_TRUE(AwaitEnd(open_.front()));
}

TEST_F(HttpUnderAttack, ARevokedTokenLosesItsLiveStream) {
  Start();
  ASSERT_EQ(OpenStream(Token(Role::kViewer)), "HTTP/1.1 200 OK");
  {
    identity::KeyFolder keys = identity::KeyFolder::Open(Path("keys")).value();
    ASSERT_TRUE(keys.RevokeToken("viewer"));
  }
  ASSERT_EQ(kill(process_->pid(), SIGHUP), 0);
  EXPECT_TRUE(AwaitEnd(open_.front()));
  EXPECT_EQ(Ask("GET", "/api/v1/status", Token(Role::kViewer)).status, 401);
  EXPECT_EQ(Ask("GET", "/api/v1/status", Token(Role::kOperator)).status, 200);
}

}  // namespace
}  // namespace espalier::controller
