#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "common/base/job_key.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {

// How two ranks that open a connection prove to each other that they have the group's key, with
// one round trip:
//
//   caller -> answerer  Hello      who it is, whom it wants, for what; a nonce
//   answerer -> caller  Challenge  a nonce; HMAC(key, "answer", Hello, nonce)
//   caller -> answerer  Proof      HMAC(key, "call", Hello, nonce)
//
// Each code covers both nonces, the group, both ranks and what the connection is for, so that none
// is of use for another connection. What follows on the connection is neither encrypted nor signed.
// In a group without a key the codes are zeros. All numbers are little-endian.

// Where both have the same bytes here they mean the same connection.
struct Hello {
  std::uint32_t magic = 0;    // of the transport
  std::uint32_t version = 0;  // of the transport's messages
  std::uint64_t group = 0;    // drawn by the rank that answers, which published it in the store
  std::int32_t from = 0;      // ranks
  std::int32_t to = 0;
  std::int32_t channel = 0;
  std::uint32_t form = 0;  // as the transport likes
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
// They go over the wire and into codes as they lie in memory.
static_assert(std::has_unique_object_representations_v<Hello> &&
              std::has_unique_object_representations_v<Challenge>);

// Sends that little, which a connection that has carried next to nothing takes whole; false where
// it does not, or is broken.
template <typename T>
bool SendAtOnce(int socket, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const ssize_t sent = ::send(socket, &value, sizeof(value), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(sizeof(value));
}

enum class Progress {
  kGoesOn,  // the other side has not yet said what is waited for
  kDone,
  kHungUp,  // the other side has, or has said what it never should
  kWrongKey,
};
// What a rank says of a call that ended so (not for kGoesOn and kDone).
Error HandshakeError(Progress progress);

// Something of a fixed size that arrives in pieces.
template <typename T>
class Arrival {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  // Takes what has come, and nothing of what follows. Never blocks.
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

// The end of the rank that connects. Owns the connection until it is proven. Never blocks.
// Thread safety: one thread at a time.
class HandshakeClient {
 public:
  // `hello` without nonce; on a connection that is open and has carried nothing.
  HandshakeClient(UniqueFd socket, const Hello& hello, const std::optional<JobKey>& key);

  // To be called when the socket is readable, and first at once. kDone: the other side has proven
  // itself, and so has this one; it may still find fault with it, and hang up.
  Progress Move();
  int socket() const { return socket_.get(); }
  UniqueFd TakeSocket() { return std::move(socket_); }

 private:
  UniqueFd socket_;
  Hello hello_;
  std::optional<JobKey> key_;
  bool has_said_hello_ = false;
  Arrival<Challenge> challenge_;
};

// The end of the rank that is called, by whoever can reach it. Owns the connection until it is
// proven. Never blocks. Thread safety: one thread at a time.
class HandshakeServer {
 public:
  explicit HandshakeServer(UniqueFd socket) : socket_(std::move(socket)) {}

  // To be called when the socket is readable. `is_expected`: whether a connection with such a hello
  // is one of this group's.
  Progress Move(const std::optional<JobKey>& key,
                const std::function<bool(const Hello&)>& is_expected);
  // A stranger who cannot read the group's store does not get that far.
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
