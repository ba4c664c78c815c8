#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::io {

// The ZeroMQ context of a loop (a void* as libzmq has it): made on first use, ended with the loop.
void* ZmqContextOf(AsioEventLoop& loop);

// How many threads of libzmq move the loop's connections (and decrypt): 1 unless this is called
// before the loop's first socket.
void SetZmqThreads(AsioEventLoop& loop, int threads);

// One frame, whose memory is libzmq's and is kept from one Receive to the next.
class ZmqFrame {
 public:
  ZmqFrame();
  ~ZmqFrame();
  ZmqFrame(const ZmqFrame&) = delete;
  ZmqFrame& operator=(const ZmqFrame&) = delete;

  std::string_view bytes() const;   // valid until the next Receive into this frame
  bool HasMore() const;             // another frame of the same message follows
  std::string_view UserId() const;  // as the ZAP handler said of the connection; "" for none
  // Of the connection that it came by: the other end's address, and the descriptor, which libzmq
  // may have closed and the system given to another since; -1 where there is none.
  std::string_view PeerAddress() const;
  int SourceDescriptor() const;

 private:
  friend class ZmqSocket;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A ZeroMQ socket in an Asio loop. Every wait goes through the loop; no call blocks.
class ZmqSocket {
 public:
  enum class Type { kRouter, kDealer, kPair };

  // Errors: kResourceExhausted where there is no descriptor left for it.
  static Result<ZmqSocket> Open(AsioEventLoop& loop, Type type);
  ~ZmqSocket();
  ZmqSocket(ZmqSocket&&) noexcept;
  ZmqSocket& operator=(ZmqSocket&&) = delete;

  // `option` is one of ZMQ_...; the value must be one that libzmq accepts.
  void Set(int option, int value);
  void Set(int option, std::int64_t value);
  void Set(int option, std::string_view value);

  Result<void> Bind(const std::string& endpoint);
  Result<void> Connect(const std::string& endpoint);
  std::string LastEndpoint() const;
  // Events of the connection, read from a ZmqSocket that is connected to `inproc_endpoint` and
  // lives until StopMonitor. Errors: as Open.
  Result<void> Monitor(const std::string& inproc_endpoint, int events);
  void StopMonitor();

  // Calls take_one() as long as it returns true; kMessagesPerTurn times in a turn of the loop.
  // take_one() is to Receive one message, and to return false where there is none (or it wants
  // no more). It may not destroy the socket.
  void OnReadable(std::function<bool()> take_one);

  bool Receive(ZmqFrame& frame);  // false where there is nothing to read
  // 0, or the errno: EAGAIN for a full queue, EHOSTUNREACH for a peer that has gone.
  int Send(std::span<const std::string_view> frames);

  static constexpr int kMessagesPerTurn = 64;

 private:
  struct Impl;
  explicit ZmqSocket(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;  // turns that are posted hold a weak one
};

}  // namespace espalier::io
