#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/result.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::io {

struct HttpRequest {
  std::string method;  // "GET", "POST", "PUT" or "DELETE"; the server answers others with 501
  std::string path;    // decoded, without the query
  std::map<std::string, std::string> query;  // decoded; of a key given twice the last
  std::string body;
  std::map<std::string, std::string> headers{};  // by name in lower case
  bool from_unix_socket = false;
  std::string peer;  // who asks, as the system knows it: "user root" on a unix socket, else its IP
};

// A body without an end, in pieces that the server takes one by one, as fast as the client does:
// what a slow client has not taken waits in nobody's memory, and its next piece can make up for it.
// Destroyed when the client is gone, or takes nothing for 30 s.
// Thread safety: the loop's thread.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // The next piece, which streams may share; null: there is none now, ask again when `wake` is
  // called.
  virtual std::shared_ptr<const std::string> Next() = 0;
  // Set by the server before the first Next.
  std::function<void()> wake;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers{};  // others than the content's own
  std::shared_ptr<HttpStream> stream{};  // in place of the body; the connection ends with it
};

struct HttpServerOptions {
  // PEM files; none: plain HTTP. The secret key must be readable by its owner only.
  std::string tls_certificate_file;
  std::string tls_key_file;
  // For a whole request to arrive, and for each piece of an answer to be taken.
  Duration timeout = std::chrono::seconds(30);
  std::size_t max_connections = 64;
};

// HTTP/1.1 on the loop's thread (Boost.Beast), over TLS (1.2 or later) where there is a
// certificate. Limits: 1 MiB a request (413), 8 KiB of headers (431), connections as the options
// say: the next one takes the place of the one that has kept its request back the longest, or is
// closed at once where all are being answered. Of one address (of IPv6: of one /64) 50 TLS
// handshakes at one moment and 20 a second are taken, and further connections are closed. What is
// not HTTP gets 400 and its connection is closed; the handler sees whole requests only.
class HttpServer {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;
  // Answers now or later, once, on the loop's thread; an answer to a connection that is gone by
  // then is dropped.
  using Respond = std::function<void(HttpResponse)>;
  using LateHandler = std::function<void(const HttpRequest&, Respond)>;

  virtual ~HttpServer() = default;
  // address: "127.0.0.1:9180", "[::1]:9180", port 0 for any, or "unix:/path" (made with mode 0660;
  // a stale socket file is replaced, one that answers is kUnavailable).
  // Errors: kInvalidArgument for another form or a certificate that is none; kUnavailable,
  // kPermissionDenied from the system.
  static Result<std::unique_ptr<HttpServer>> Listen(AsioEventLoop& loop, const std::string& address,
                                                    LateHandler handler,
                                                    const HttpServerOptions& options = {});
  static Result<std::unique_ptr<HttpServer>> Listen(AsioEventLoop& loop, const std::string& address,
                                                    Handler handler,
                                                    const HttpServerOptions& options = {});
  // The address with the port that it got.
  virtual std::string address() const = 0;
  // Reads certificate and key again, for connections from now on. Errors: those of Listen; then
  // those that were read before stay in force.
  virtual Result<void> ReloadCertificate() = 0;
};

// Who asks, and whom it believes.
struct HttpAccess {
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string ca_file{};  // PEM; "": the system's authorities
};
// One blocking request; for command-line tools and tests. address: as HttpServer's, or
// "https://host:port", where the certificate must be the host's.
// Errors: kInvalidArgument for a malformed address; kUnavailable where nothing answers within the
// timeout, with the address; kPermissionDenied for a certificate that is not to be believed.
Result<HttpResponse> HttpFetch(const std::string& address, const std::string& method,
                               const std::string& target, const std::string& body, Duration timeout,
                               const HttpAccess& access = {});

}  // namespace espalier::io
