#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "collective/transport/rendezvous/group_credentials.h"
#include "collective/transport/rendezvous/handshake.h"
#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/base/users/job_key.h"

namespace espalier::transport {

// The messages between a TcpStore and its server. The server greets; the client sends one request;
// the server answers, or tells the client to come again.
inline constexpr std::uint32_t kStoreMagic = 0x32535345;
inline constexpr std::uint32_t kMaxStoreKeyBytes = 1024;
inline constexpr std::uint32_t kMaxStoreValueBytes = 64 << 10;
inline constexpr char kSetValue = 's';
inline constexpr char kGetValue = 'g';
inline constexpr char kSetOnce = 'o';    // the answer is the value that the key has
inline constexpr char kComeAgain = 'a';  // an answer: the key is not of the group that is served
inline constexpr std::string_view kStoreAsks = "espalier store 2 ask";
inline constexpr std::string_view kStoreAnswers = "espalier store 2 answer";

// The server's first message on every connection.
struct StoreGreeting {
  std::uint32_t magic = kStoreMagic;
  std::uint32_t is_keyed = 0;
  Nonce nonce = {};
};
// The header of a request, which is followed by the key and, for kSetValue and kSetOnce, the value;
// and of an answer, which is followed by the value. The code is HMAC(job key, purpose, server's
// nonce, the request or answer without its code). The frame's nonce is the client's; an answer
// repeats it.
struct StoreFrame {
  std::uint32_t magic = kStoreMagic;
  std::uint32_t kind = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
  Nonce nonce = {};
  Mac code = {};
};

inline Mac CodeOfFrame(const std::optional<JobKey>& secret, std::string_view purpose,
                       const Nonce& server, StoreFrame frame, std::string_view key,
                       std::string_view value) {
  if (!secret) return {};
  frame.code = {};
  return secret->Sign(purpose,
                      {std::as_bytes(std::span(server)), std::as_bytes(std::span(&frame, 1)),
                       std::as_bytes(std::span(key)), std::as_bytes(std::span(value))});
}

// Whether members may meet at an address.
inline Result<void> CheckStoreAt(const std::string& digits, const GroupCredentials& members) {
  const auto address = IpAddress::Parse(digits);
  if (!address) return tl::unexpected(address.error());
  return members.CheckMeetsAt(*address);
}

}  // namespace espalier::transport
