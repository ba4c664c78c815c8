#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/bus/curve.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::io {

// Decides for libzmq (ZAP, RFC 27) which CURVE keys may connect to the sockets of a loop, of which
// there is one handler at a time. Who may is known to the socket by its public key (UserId).
class ZapHandler {
 public:
  // Who was refused: its IP address and its public key.
  using OnRefusal = std::function<void(const std::string& address, const std::string& key)>;
  // Whether an agent of this name may have one more connection now; it is to try again if not.
  using Admit = std::function<bool(const std::string& name)>;

  // Errors: kUnavailable while the loop has another one.
  static Result<std::unique_ptr<ZapHandler>> Start(AsioEventLoop& loop, NameOfKey name_of_key,
                                                   Admit admit, OnRefusal on_refusal);
  virtual ~ZapHandler() = default;
};

// The domain that sockets are to name. Without a handler libzmq lets all in, without a UserId.
inline constexpr const char* kZapDomain = "espalier";

}  // namespace espalier::io
