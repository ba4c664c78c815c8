#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "collective/transport/verbs/lane.h"

namespace espalier::transport {

// Of the reason that a rank gives for giving up: bytes.
inline constexpr std::size_t kLongestReason = 448;

// Reads what a peer says over TCP: notices, one after another, each with a reason behind it or
// none. Never blocks. Thread safety: one thread at a time.
class NoticeReader {
 public:
  enum class State {
    kNothing,  // no whole notice has come yet
    kNotice,   // notice() and reason(), until the next call
    kEnded,    // the peer has closed the connection, or it broke: why_ended()
  };
  State Read(int socket);

  const Notice& notice() const { return notice_; }
  std::string_view reason() const { return {reason_.data(), reason_bytes_}; }
  const std::string& why_ended() const { return why_ended_; }

 private:
  State Receive(int socket, void* to, std::size_t from, std::size_t bytes);

  Notice notice_;
  std::array<char, kLongestReason> reason_ = {};
  std::size_t reason_bytes_ = 0;  // of the notice at hand, as far as they are read
  std::size_t received_ = 0;      // bytes of notice and reason
  std::string why_ended_;
};

}  // namespace espalier::transport
