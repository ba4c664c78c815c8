#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "common/http/http.h"
#include "common/http/http_client.h"
#include "common/http/http_server.h"
#include "common/loop/asio_event_loop.h"
#include "common/net/socket_address.h"

namespace espalier::io {

using namespace std::chrono_literals;

inline constexpr Duration kPatience = 60s;

// A server whose loop runs on a separate thread.
class Serving {
 public:
  explicit Serving(const std::string& address, HttpServer::Handler handler)
      : server_(std::move(HttpServer::Listen(loop_, address, std::move(handler)).value())),
        address_(server_->address()),
        thread_([this] { loop_.Run(); }) {}
  ~Serving() {
    loop_.Stop();
    thread_.join();
  }

  const std::string& address() const { return address_; }
  HttpResponse Fetch(const std::string& method, const std::string& target,
                     const std::string& body = "") const {
    return HttpFetch(address_, method, target, body, kPatience).value();
  }

 private:
  AsioEventLoop loop_;
  std::unique_ptr<HttpServer> server_;
  std::string address_;
  std::thread thread_;
};

inline HttpResponse Echo(const HttpRequest& request) {
  std::string text = request.method + " " + request.path;
  for (const auto& [key, value] : request.query) text += " " + key + "=" + value;
  return {200, "text/plain", text + " [" + request.body + "]"};
}

// Sends raw bytes and returns everything until the server closes.
class RawConnection {
 public:
  // source: an address of loopback to connect from; "": any
  explicit RawConnection(const std::string& address, const std::string& source = "") {
    const SocketAddress to = ParseSocketAddress(address).value();
    fd_ = socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!source.empty()) {
      const SocketAddress from = ParseSocketAddress(source + ":0").value();
      EXPECT_EQ(bind(fd_, from.get(), from.size), 0);
    }
    EXPECT_EQ(connect(fd_, to.get(), to.size), 0);
  }
  ~RawConnection() { close(fd_); }

  // Returns false if the server has closed already.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void EndInput() { shutdown(fd_, SHUT_WR); }
  // Reads until these bytes, or the end.
  std::string ReadUntil(std::string_view last) {
    std::string text;
    char c;
    while (text.find(last) == std::string::npos && recv(fd_, &c, 1, 0) == 1) text += c;
    return text;
  }
  std::string ReadAll() {
    std::string text;
    char buffer[4096];
    ssize_t got;
    while ((got = recv(fd_, buffer, sizeof buffer, 0)) > 0) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  int fd_ = -1;
};

}  // namespace espalier::io
