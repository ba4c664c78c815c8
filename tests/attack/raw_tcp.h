#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace espalier::attack {

// A stranger's TCP connection to the loopback address, which sends and reads arbitrarily.
class RawTcp {
 public:
  // `receive_bytes`: how much of what the other side sends is accepted before it is read; 0: as
  // much as the system likes.
  explicit RawTcp(std::uint16_t port, int receive_bytes = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_bytes > 0) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    }
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(port);
    is_connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  }
  RawTcp(const RawTcp&) = delete;
  RawTcp& operator=(const RawTcp&) = delete;
  ~RawTcp() { ::close(socket_); }

  bool is_connected() const { return is_connected_; }
  // Sends with at most ten seconds of waiting; returns false if the other side has hung up or
  // accepts no more.
  bool Send(const std::string& bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t now =
          ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (now > 0) sent += static_cast<std::size_t>(now);
      pollfd room = {socket_, POLLOUT, 0};
      if (now < 0 && (errno != EAGAIN || ::poll(&room, 1, 10'000) != 1)) return false;
    }
    return true;
  }
  // Reads and drops that number of bytes; returns false if the other side hangs up or is silent for
  // a minute.
  bool Receive(std::size_t bytes) {
    char part[65'536];
    while (bytes > 0) {
      pollfd ready = {socket_, POLLIN, 0};
      if (::poll(&ready, 1, 60'000) != 1) return false;
      const ssize_t got = ::recv(socket_, part, std::min(bytes, sizeof(part)), 0);
      if (got <= 0) return false;
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }
  // Reads that number of bytes; returns "" if the other side hangs up first or is silent for a
  // minute.
  std::string Take(std::size_t bytes) {
    std::string taken(bytes, '\0');
    std::size_t done = 0;
    while (done < bytes) {
      pollfd ready = {socket_, POLLIN, 0};
      if (::poll(&ready, 1, 60'000) != 1) return {};
      const ssize_t got = ::recv(socket_, taken.data() + done, bytes - done, 0);
      if (got <= 0) return {};
      done += static_cast<std::size_t>(got);
    }
    return taken;
  }
  // Reads until the other side hangs up (true) or is silent for a minute (false).
  bool IsHungUpOn(std::size_t* bytes = nullptr) {
    char part[65'536];
    while (true) {
      pollfd ready = {socket_, POLLIN, 0};
      if (::poll(&ready, 1, 60'000) != 1) return false;
      const ssize_t got = ::recv(socket_, part, sizeof(part), 0);
      if (got <= 0) return true;
      if (bytes != nullptr) *bytes += static_cast<std::size_t>(got);
    }
  }
  // True if the other side has hung up and everything that it sent was read.
  bool HasHungUp() const {
    char byte = 0;
    return ::recv(socket_, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  }

 private:
  int socket_;
  bool is_connected_ = false;
};

// A request to a group's store, written by hand: the header has an invented nonce and code.
inline std::string StoreRequest(char kind, const std::string& key, const std::string& value = "") {
  const std::uint32_t head[4] = {0x32535345, static_cast<std::uint32_t>(kind),
                                 static_cast<std::uint32_t>(key.size()),
                                 static_cast<std::uint32_t>(value.size())};
  return std::string(reinterpret_cast<const char*>(head), sizeof(head)) + std::string(64, '\0') +
         key + value;
}
inline constexpr std::size_t kStoreGreetingBytes = 40;
inline constexpr std::size_t kStoreAnswerBytes = 80;  // without the value

// A rank's first message on a connection to another rank, written by hand.
struct RankHello {
  std::uint32_t magic = 0x45535448;
  std::uint32_t version = 4;
  std::uint64_t group = 0;
  std::int32_t from = 1;
  std::int32_t to = 0;
  std::int32_t channel = 0;
  std::uint32_t form = 0;
  std::uint32_t slots = 8;
  std::uint32_t is_keyed = 1;
  std::uint64_t slot_bytes = 1 << 20;
  char nonce[32] = "made up";

  std::string ToBytes() const {
    return std::string(reinterpret_cast<const char*>(this), sizeof(*this));
  }
};
static_assert(sizeof(RankHello) == 80);

}  // namespace espalier::attack
