#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/bus/curve.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::io {

// Decides for libzmq (ZAP, ZeroMQ RFC 27) which CURVE keys may connect to the sockets of a loop. A
// loop has one handler at a time. The socket knows an admitted peer by its public key (UserId).
class ZapHandler {
 public:
  // Called with the IP address and the public key of a refused peer.
  using OnRefusal = std::function<void(const std::string& address, const std::string& key)>;
  // Returns whether an agent of this name may have one more connection now. If not, it tries again.
  using Admit = std::function<bool(const std::string& name)>;

  // Errors: kUnavailable while the loop has another handler.
  static Result<std::unique_ptr<ZapHandler>> Start(AsioEventLoop& loop, NameOfKey name_of_key,
                                                   Admit admit, OnRefusal on_refusal);
  virtual ~ZapHandler() = default;
};

// The ZAP domain that sockets must name. Without a handler libzmq admits every peer, without a
// UserId.
inline constexpr const char* kZapDomain = "espalier";

}  // namespace espalier::io
