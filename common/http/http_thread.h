#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/result.h"
#include "common/http/http.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::io {

// HTTP servers on a thread and loop of their own, in front of a handler on another loop, its home:
// connections, TLS handshakes and slow clients take no time of the home loop. It gets whole
// requests only, one in a turn, so that other work there comes between any two; as many wait for it
// as there are connections (HttpServerOptions::max_connections a server). Answers go back as
// values; streams stay at home, and each is asked for its next piece when its client has taken the
// last one.
//
// Costs a request two changes of threads.
// Thread safety: made, used and destroyed on the home loop's thread, which calls the handler and
// streams. An answer that is given after the end of this is dropped.
class HttpThread {
 public:
  HttpThread(EventLoop& home, HttpServer::LateHandler handler);
  ~HttpThread();
  HttpThread(const HttpThread&) = delete;
  HttpThread& operator=(const HttpThread&) = delete;

  // Before Start; the address that it got. Errors: those of HttpServer::Listen.
  Result<std::string> Listen(const std::string& address, const HttpServerOptions& options);
  void Start();
  // Has all servers read their certificates again, for connections from now on. What is wrong is
  // logged, and the certificate that was read before stays.
  void ReloadCertificates();

 private:
  class Home;
  class Front;

  std::shared_ptr<Home> home_;
  std::unique_ptr<Front> front_;  // outlives the loop, whose handlers may own streams
  AsioEventLoop loop_;            // of the thread
  std::vector<std::unique_ptr<HttpServer>> servers_;
  std::thread thread_;
};

}  // namespace espalier::io
