#pragma once

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
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/files/file.h"
#include "common/http/http.h"
#include "common/http/http_client.h"
#include "common/identity/key_folder.h"
#include "common/os/command.h"
#include "tests/temporary_folder.h"

namespace espalier::controller {

using namespace std::chrono_literals;
using identity::Role;
using testing::HasSubstr;
using testing::Not;

inline constexpr const char* kTopology = R"({"name": "evil", "version": 1, "nodes": [
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

// A controller's process with a folder of its own for topology, keys, configuration and store.
class Daemon : public testing::Test {
 protected:
  Daemon() {
    std::ofstream(Path("topology.json")) << kTopology;
    identity::KeyFolder keys = identity::KeyFolder::Open(Path("keys")).value();
    EXPECT_TRUE(keys.MakeController(SystemWallTime()));
    for (const Role role : {Role::kViewer, Role::kFeed, Role::kOperator, Role::kAdmin}) {
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
                                  << "\"\nstate_file: \"" << store_ << "\"\nkey_folder: \""
                                  << Path("keys") << "\"\nlisten: \"tcp://127.0.0.1:" << bus_port_
                                  << "\"\nhttp: \"unix:" << Path("api.sock") << "\"\nhttp: \""
                                  << Tcp() << "\"\nlog_level: \"error\"\n"
                                  << more;
  }

  Command Program(std::vector<std::string> more = {}) const {
    Command command;
    command.argv = within_;
    for (const std::string& word : {std::string(ESPALIER_PROGRAMS "/espalier-controller"),
                                    std::string("--config"), Path("c.conf")}) {
      command.argv.push_back(word);
    }
    command.argv.insert(command.argv.end(), more.begin(), more.end());
    return command;
  }

  // Expects that the controller does not start.
  void ExpectRefusal(const std::string& what) {
    const auto before = Contents();
    const auto ended = RunCommand(Program());
    ASSERT_TRUE(ended) << ended.error().message;
    EXPECT_THAT(ended->exit_code, testing::AnyOf(1, 2));
    EXPECT_THAT(ended->err, HasSubstr(what));
    EXPECT_TRUE(Contents() == before) << "after: " << what;  // without printing files
  }

  // The contents of every file, except those that show that a process runs.
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
    auto started = ChildProcess::Start(Program());
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

  // An admin's request over the unix socket, below /api/v1/; status 0: no answer.
  io::HttpResponse CallUnix(const std::string& method, const std::string& target) {
    auto answer = io::HttpFetch("unix:" + Path("api.sock"), method, "/api/v1/" + target, "", 60s);
    return answer ? std::move(*answer) : io::HttpResponse{.status = 0};
  }
  io::HttpResponse Act(const std::string& action) { return CallUnix("POST", action); }
  std::string Intents() { return CallUnix("GET", "intents").body; }

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

  // A TCP connection that sends this and nothing more.
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
  std::string store_ = Path("store.db");
  std::vector<std::string> within_;  // what starts the program; none: it starts itself
  std::vector<std::string> tokens_;  // by role
  int bus_port_ = 0;
  int http_port_ = 0;
  std::optional<ChildProcess> process_;
};

}  // namespace espalier::controller
