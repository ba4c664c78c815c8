#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace espalier::attack {

// A DEALER of ZMTP 3.0 (RFC 23 of rfc.zeromq.org) with the NULL mechanism over a raw TCP socket. It
// sends arbitrary bytes, ignores goodbyes and keeps no limits. It uses no code of the bus.
// Thread safety: none.
class ZmtpDealer {
 public:
  explicit ZmtpDealer(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    is_open_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    std::string greeting("\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL", 16);
    greeting.resize(64, '\0');
    SendRaw(greeting);
    std::string theirs(64, '\0');
    ReadFully(theirs);
    const std::string ready(
        "\x05READY\x0bSocket-Type\0\0\0\x06"
        "DEALER",
        28);
    SendRaw(std::string("\x04", 1) + static_cast<char>(ready.size()) + ready);
  }
  ~ZmtpDealer() { ::close(fd_); }
  ZmtpDealer(const ZmtpDealer&) = delete;
  ZmtpDealer& operator=(const ZmtpDealer&) = delete;

  // False once the other side has closed, or has accepted nothing for ten seconds.
  bool is_open() const { return is_open_; }

  // Sends a message in frames of at most `most` bytes.
  bool Send(std::string_view message, std::size_t most = 8'192) {
    std::string bytes;
    do {
      const std::string_view part = message.substr(0, most);
      message.remove_prefix(part.size());
      AppendFrame(bytes, part, !message.empty());
    } while (!message.empty());
    return SendRaw(bytes);
  }
  // Sends arbitrary bytes, such as invalid frames.
  bool SendRaw(std::string_view bytes) {
    while (is_open_ && !bytes.empty()) {
      if (!Await(POLLOUT)) break;
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0) {
        is_open_ = false;
      } else {
        bytes.remove_prefix(static_cast<std::size_t>(sent));
      }
    }
    return is_open_;
  }
  // Receives the next message with its frames joined; none if the other side closes or is silent.
  std::optional<std::string> Receive() {
    std::string message;
    for (;;) {
      std::string head(1, '\0');
      if (!ReadFully(head)) return std::nullopt;
      const auto flags = static_cast<std::uint8_t>(head[0]);
      std::string length((flags & kLong) != 0 ? 8 : 1, '\0');
      if (!ReadFully(length)) return std::nullopt;
      std::size_t size = 0;
      for (const char byte : length) size = size << 8U | static_cast<std::uint8_t>(byte);
      std::string body(size, '\0');
      if (!ReadFully(body)) return std::nullopt;
      if ((flags & kCommand) != 0) continue;
      message += body;
      if ((flags & kMore) == 0) return message;
    }
  }

 private:
  static constexpr std::uint8_t kMore = 1;
  static constexpr std::uint8_t kLong = 2;
  static constexpr std::uint8_t kCommand = 4;

  static void AppendFrame(std::string& to, std::string_view part, bool has_more) {
    const bool is_long = part.size() > 255;
    to += static_cast<char>((has_more ? kMore : 0) | (is_long ? kLong : 0));
    for (int shift = is_long ? 56 : 0; shift >= 0; shift -= 8) {
      to += static_cast<char>(part.size() >> static_cast<unsigned>(shift) & 0xffU);
    }
    to += part;
  }
  bool Await(short events) {
    pollfd waits{fd_, events, 0};
    const auto limit = std::chrono::milliseconds(std::chrono::seconds(10));
    is_open_ = is_open_ && ::poll(&waits, 1, static_cast<int>(limit.count())) == 1;
    return is_open_;
  }
  bool ReadFully(std::string& into) {
    for (std::size_t done = 0; done < into.size();) {
      if (!Await(POLLIN)) return false;
      const ssize_t got = ::recv(fd_, into.data() + done, into.size() - done, 0);
      if (got <= 0) return is_open_ = false;
      done += static_cast<std::size_t>(got);
    }
    return true;
  }

  int fd_;
  bool is_open_ = false;
};

}  // namespace espalier::attack
