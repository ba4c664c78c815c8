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

// The ZeroMQ context of a loop (libzmq's void*), created on first use and ended with the loop.
void* ZmqContextOf(AsioEventLoop& loop);

// Sets how many libzmq threads serve the loop's connections (and decrypt). Call it before the
// loop's first socket; the default is 1.
void SetZmqThreads(AsioEventLoop& loop, int threads);

// One received frame. libzmq owns its memory, which is reused from one Receive to the next.
class ZmqFrame {
 public:
  ZmqFrame();
  ~ZmqFrame();
  ZmqFrame(const ZmqFrame&) = delete;
  ZmqFrame& operator=(const ZmqFrame&) = delete;

  std::string_view bytes() const;   // valid until the next Receive into this frame
  bool HasMore() const;             // another frame of the same message follows
  std::string_view UserId() const;  // the connection's user id from the ZAP handler; "" for none
  // The other end's address and the descriptor of the connection on which the frame arrived. libzmq
  // may have closed the descriptor, and the system reused it, since then; -1 if there is none.
  std::string_view PeerAddress() const;
  int SourceDescriptor() const;

 private:
  friend class ZmqSocket;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A ZeroMQ socket in an Asio loop. All waiting happens in the loop; no call blocks.
class ZmqSocket {
 public:
  enum class Type { kRouter, kDealer, kPair };

  // Errors: kResourceExhausted if there is no free descriptor.
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
  // Sends events of the socket's connections to `inproc_endpoint`. A ZmqSocket that is connected to
  // it must live until StopMonitor. Errors: those of Open.
  Result<void> Monitor(const std::string& inproc_endpoint, int events);
  void StopMonitor();

  // Calls take_one() while it returns true, at most kMessagesPerTurn times in a turn of the loop.
  // take_one() must Receive one message, and return false if there is none (or to stop). It must
  // not destroy the socket.
  void OnReadable(std::function<bool()> take_one);

  bool Receive(ZmqFrame& frame);  // false if there is nothing to read
  // Returns 0 or an errno: EAGAIN for a full queue, EHOSTUNREACH for a peer that is gone.
  int Send(std::span<const std::string_view> frames);

  static constexpr int kMessagesPerTurn = 64;

 private:
  struct Impl;
  explicit ZmqSocket(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;  // posted turns hold a weak pointer
};

}  // namespace espalier::io
