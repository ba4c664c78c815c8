#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "collective/transport/verbs/lane.h"

namespace espalier::transport {

// The most bytes of the reason of an abort.
inline constexpr std::size_t kLongestReason = 448;

// Reads the notices that a peer sends over TCP, each followed by a reason or none. Never blocks.
// Thread safety: one thread at a time.
class NoticeReader {
 public:
  enum class State {
    kNothing,  // no complete notice has come yet
    kNotice,   // notice() and reason() are valid until the next call
    kEnded,    // the connection was closed or broke; see why_ended()
  };
  State Read(int socket);

  const Notice& notice() const { return notice_; }
  std::string_view reason() const { return {reason_.data(), reason_bytes_}; }
  const std::string& why_ended() const { return why_ended_; }

 private:
  State Receive(int socket, void* to, std::size_t from, std::size_t bytes);

  Notice notice_;
  std::array<char, kLongestReason> reason_ = {};
  std::size_t reason_bytes_ = 0;  // length of the current notice's reason
  std::size_t received_ = 0;      // bytes received of notice and reason
  std::string why_ended_;
};

}  // namespace espalier::transport
