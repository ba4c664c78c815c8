#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace espalier::io {

// A network between a client and a server on loopback that can lose all that is on its way, as a
// partition does: no connection is closed, and nothing arrives.
class SilentProxy {
 public:
  explicit SilentProxy(int server_port) : server_port_(server_port), listener_(Listen()) {
    thread_ = std::thread([this] { Work(); });
  }
  ~SilentProxy() {
    stop_ = true;
    thread_.join();
    for (const auto& [client, server] : pairs_) {
      close(client);
      close(server);
    }
    close(listener_);
  }

  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port_); }
  // Connections that exist are dead from now on, for ever; later ones are not.
  void LoseConnections() { lost_ = accepted_.load(); }

 private:
  static sockaddr_in Loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return address;
  }
  int Listen() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    bind(fd, reinterpret_cast<const sockaddr*>(&address), size);
    listen(fd, 16);
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    return fd;
  }
  void Accept() {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(server_port_);
    connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    pairs_.emplace_back(client, server);
    ++accepted_;
  }
  // False where `from` has ended.
  static bool Forward(int from, int to) {
    std::array<char, 4096> buffer{};
    const ssize_t got = recv(from, buffer.data(), buffer.size(), 0);
    if (got <= 0) return false;
    return send(to, buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) == got;
  }
  void Work() {
    while (!stop_) {
      std::vector<pollfd> waits{{listener_, POLLIN, 0}};
      const std::size_t first = lost_;  // what comes on lost ones is not even read
      for (std::size_t i = first; i < pairs_.size(); ++i) {
        waits.push_back({pairs_[i].first, POLLIN, 0});
        waits.push_back({pairs_[i].second, POLLIN, 0});
      }
      poll(waits.data(), waits.size(), 5);
      for (std::size_t i = 1; i < waits.size(); ++i) {
        if (waits[i].revents == 0 || first < lost_) continue;
        auto& [client, server] = pairs_[first + (i - 1) / 2];
        if (i % 2 == 1 ? Forward(client, server) : Forward(server, client)) continue;
        shutdown(client, SHUT_RDWR);
        shutdown(server, SHUT_RDWR);
      }
      if (waits[0].revents != 0) Accept();
    }
  }

  const int server_port_;
  int port_ = 0;
  const int listener_;
  std::vector<std::pair<int, int>> pairs_;
  std::atomic<std::size_t> accepted_ = 0;
  std::atomic<std::size_t> lost_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace espalier::io
