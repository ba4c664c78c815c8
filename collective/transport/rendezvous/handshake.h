#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/base/users/job_key.h"

namespace espalier::transport {

// The handshake by which two ranks prove to each other, on a new connection, that they have the
// group's key. It takes one round trip:
//
//   client -> server  Hello      both ranks, channel, transport parameters; a nonce
//   server -> client  Challenge  a nonce; HMAC(key, "answer", Hello, nonce)
//   client -> server  Proof      HMAC(key, "call", Hello, nonce)
//
// Problem: neither side may accept a stranger, a replayed message, or a message of another
// connection. Idea: mutual challenge-response with fresh nonces of both sides. Invariant: each code
// covers its purpose, both nonces, the group, both ranks and the parameters of the connection, so
// it is useless for any other connection or direction. The connection's later data is neither
// encrypted nor signed. In a group without a key the codes are zeros. All numbers are
// little-endian.

// The parameters of a connection. Two ranks mean the same connection if these bytes are equal.
struct Hello {
  std::uint32_t magic = 0;    // of the transport
  std::uint32_t version = 0;  // of the transport's messages
  std::uint64_t group = 0;    // random number that the server has published in the store
  std::int32_t from = 0;      // rank of the client
  std::int32_t to = 0;        // rank of the server
  std::int32_t channel = 0;
  std::uint32_t form = 0;  // defined by the transport
  std::uint32_t slots = 0;
  std::uint32_t is_keyed = 0;
  std::uint64_t slot_bytes = 0;
  Nonce nonce = {};
};
struct Challenge {
  Nonce nonce = {};
  Mac code = {};
};
struct Proof {
  Mac code = {};
};
// The structures are sent and signed as they lie in memory, so they must have no padding.
static_assert(std::has_unique_object_representations_v<Hello> &&
              std::has_unique_object_representations_v<Challenge>);

// Sends a small value on a connection that has carried almost nothing, so its buffer has room.
// Returns false if the value was not sent as a whole.
template <typename T>
bool SendAtOnce(int socket, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const ssize_t sent = ::send(socket, &value, sizeof(value), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(sizeof(value));
}

enum class Progress {
  kGoesOn,  // the awaited message has not come completely
  kDone,
  kHungUp,  // the other side has closed the connection or violated the protocol
  kWrongKey,
};
// The client's error for a failed handshake (kHungUp or kWrongKey).
Error HandshakeError(Progress progress);

// Receives a value of fixed size that arrives in pieces.
template <typename T>
class Arrival {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  // Receives the bytes that have come, but none beyond the value. Never blocks.
  Progress Receive(int socket) {
    while (received_ < sizeof(T)) {
      const ssize_t got = ::recv(socket, reinterpret_cast<char*>(&value_) + received_,
                                 sizeof(T) - received_, MSG_DONTWAIT);
      if (got > 0) {
        received_ += static_cast<std::size_t>(got);
      } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        return Progress::kHungUp;
      } else if (errno == EAGAIN) {
        return Progress::kGoesOn;
      }
    }
    return Progress::kDone;
  }
  bool is_whole() const { return received_ == sizeof(T); }
  const T& value() const { return value_; }

 private:
  T value_ = {};
  std::size_t received_ = 0;  // bytes
};

// The handshake of the rank that connects. Owns the connection until TakeSocket. Never blocks.
// Thread safety: one thread at a time.
class HandshakeClient {
 public:
  // `socket`: an open connection that has carried nothing. `hello`: without a nonce.
  HandshakeClient(UniqueFd socket, const Hello& hello, const std::optional<JobKey>& key);

  // Advances the handshake. Call it at once, then whenever the socket is readable. kDone: the
  // server has proven its key and this side's proof is sent; the server may still reject it and
  // hang up.
  Progress Advance();
  int socket() const { return socket_.get(); }
  UniqueFd TakeSocket() { return std::move(socket_); }

 private:
  UniqueFd socket_;
  Hello hello_;
  std::optional<JobKey> key_;
  bool has_sent_hello_ = false;
  Arrival<Challenge> challenge_;
};

// The handshake of the rank that accepts, with a peer that may be anybody. Owns the connection
// until TakeSocket. Never blocks. Thread safety: one thread at a time.
class HandshakeServer {
 public:
  explicit HandshakeServer(UniqueFd socket) : socket_(std::move(socket)) {}

  // Advances the handshake. Call it whenever the socket is readable. `is_expected`: whether a hello
  // belongs to a connection of this group.
  Progress Advance(const std::optional<JobKey>& key,
                   const std::function<bool(const Hello&)>& is_expected);
  // Whether the peer has shown the group's number, which only readers of the store know.
  bool knows_group() const { return knows_group_; }
  const Hello& hello() const { return hello_.value(); }
  int socket() const { return socket_.get(); }
  UniqueFd TakeSocket() { return std::move(socket_); }

 private:
  UniqueFd socket_;
  Arrival<Hello> hello_;
  bool knows_group_ = false;
  Nonce nonce_ = {};
  Arrival<Proof> proof_;
};

}  // namespace espalier::transport
