#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/base/time/event_loop.h"
#include "common/http/connection_places.h"
#include "common/http/http.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::io {

struct HttpServerOptions {
  // PEM files; empty: plain HTTP. Only its owner may be able to read the secret key.
  std::string tls_certificate_file;
  std::string tls_key_file;
  // Time for a whole request to arrive, and for each piece of a stream to be received.
  Duration timeout = std::chrono::seconds(30);
  PlaceLimits places;
  // Answers to strangers (HttpResponse::is_to_known_caller), for each address.
  double stranger_answers_per_second = 200;
};

// An HTTP/1.1 server on the loop's thread (Boost.Beast), over TLS 1.2 or later if it has a
// certificate. Limits: 1 MiB per request (413), 8 KiB of headers (431), and places for connections
// (ConnectionPlaces). A connection that finds a place in the reserve only gets 503 for all but
// GET /healthz, unless another becomes free within two seconds. Callers on TCP share an answer to
// GET /healthz for a quarter of a second, so that they cost the handler four calls a second.
// Requests of strangers wait while their address has had more than its answers; those with a token
// or cookie wait later than those without, as they may come from somebody who is known. One address
// (for IPv6: one /64) may begin 50 TLS handshakes at once and 20 per second; further connections
// are closed. Input that is not HTTP gets 400, and its connection is closed. The handler gets whole
// requests only.
class HttpServer {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;
  // Answers a request, now or later, once, on the loop's thread. The answer is dropped if the
  // connection is gone by then.
  using Respond = std::function<void(HttpResponse)>;
  using LateHandler = std::function<void(const HttpRequest&, Respond)>;

  virtual ~HttpServer() = default;
  // address: "127.0.0.1:9180", "[::1]:9180", port 0 for any, or "unix:/path" (created with mode
  // 0660; replaces a stale socket file).
  // Errors: kInvalidArgument for another form or an invalid certificate; kUnavailable, also if
  // another process answers on the socket, and kPermissionDenied from the system.
  static Result<std::unique_ptr<HttpServer>> Listen(AsioEventLoop& loop, const std::string& address,
                                                    LateHandler handler,
                                                    const HttpServerOptions& options = {});
  static Result<std::unique_ptr<HttpServer>> Listen(AsioEventLoop& loop, const std::string& address,
                                                    Handler handler,
                                                    const HttpServerOptions& options = {});
  // The address with the actual port.
  virtual std::string address() const = 0;
  // Reads certificate and key again, for connections from now on. Errors: those of Listen; the
  // earlier certificate and key then stay in force.
  virtual Result<void> ReloadCertificate() = 0;
};

}  // namespace espalier::io
