#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/event_loop.h"
#include "common/http/http_server.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::io {

// Runs HTTP servers on a separate thread and loop, in front of a handler on another loop, its home
// loop. Connections, TLS handshakes and slow clients therefore take no time of the home loop. It
// gets whole requests only, one per turn, so that other work runs between any two; at most
// PlaceLimits::connections and its reserve of requests per server wait for it. Answers are passed
// back as values. Streams stay on the home loop, and each is asked for its next piece when its
// client has received the last one.
//
// Cost: two thread switches per request.
// Thread safety: create, use and destroy it on the home loop's thread, which calls the handler and
// the streams. Answers after its destruction are dropped.
class HttpThread {
 public:
  HttpThread(EventLoop& home, HttpServer::LateHandler handler);
  ~HttpThread();
  HttpThread(const HttpThread&) = delete;
  HttpThread& operator=(const HttpThread&) = delete;

  // Adds a server, before Start, and returns its actual address. Errors: those of
  // HttpServer::Listen.
  Result<std::string> Listen(const std::string& address, const HttpServerOptions& options);
  // Adds a server for each of these addresses. On an error, those before it stay.
  Result<std::vector<std::string>> Listen(const std::vector<std::string>& addresses,
                                          const HttpServerOptions& options);
  void Start();
  // Makes all servers read their certificates again, for connections from now on. Errors are
  // logged, and the earlier certificate stays in force.
  void ReloadCertificates();

 private:
  class Home;
  class Front;

  std::shared_ptr<Home> home_;
  std::unique_ptr<Front> front_;  // outlives the loop, whose handlers may own streams
  AsioEventLoop loop_;            // the loop of the thread
  std::vector<std::unique_ptr<HttpServer>> servers_;
  std::thread thread_;
};

}  // namespace espalier::io
