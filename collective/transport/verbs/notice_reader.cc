#include "collective/transport/verbs/notice_reader.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace espalier::transport {

NoticeReader::State NoticeReader::Read(int socket) {
  if (received_ < sizeof(Notice)) {
    const State state = Receive(socket, &notice_, received_, sizeof(Notice));
    if (state != State::kNotice) return state;
    reason_bytes_ = std::min<std::size_t>(notice_.reason_bytes, kLongestReason);
  }
  const State state = Receive(socket, reason_.data(), received_ - sizeof(Notice), reason_bytes_);
  if (state == State::kNotice) received_ = 0;
  return state;
}

// Receives bytes `from` to `bytes` of the value at `to`. Returns kNotice when all have come.
NoticeReader::State NoticeReader::Receive(int socket, void* to, std::size_t from,
                                          std::size_t bytes) {
  while (from < bytes) {
    const ssize_t got =
        ::recv(socket, static_cast<char*>(to) + from, bytes - from, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return State::kNothing;
    if (got <= 0) {
      why_ended_ = got == 0 ? "it closed the connection" : std::strerror(errno);
      return State::kEnded;
    }
    from += static_cast<std::size_t>(got);
    received_ += static_cast<std::size_t>(got);
  }
  return State::kNotice;
}

}  // namespace espalier::transport
