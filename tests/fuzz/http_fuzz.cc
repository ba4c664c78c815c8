// Arbitrary bytes on the controller's HTTP address, in front of the guard.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/base/check.h"
#include "common/base/unique_fd.h"
#include "common/http/http.h"
#include "common/http/http_server.h"
#include "common/loop/asio_event_loop.h"
#include "controller/api/http/http_guard.h"
#include "tests/fuzz/own_folder.h"

namespace {

using espalier::UniqueFd;
using namespace espalier;

// The guard of a controller with a token that no caller has; checks which requests it admits.
class Server {
 public:
  Server()
      : guard_(
            tokens_, [] { return WallTime{}; }, [](const auto&, const auto&) {},
            [](const io::HttpRequest& request, const io::HttpServer::Respond& respond) {
              const bool needs_token =
                  request.path.starts_with("/api/") || request.path == "/metrics";
              ESPALIER_CHECK(!needs_token, "the API answered without a token");
              respond({.body = "page"});
            }) {
    const auto added = tokens_.Add({.name = "ada",
                                    .role = identity::Role::kViewer,
                                    .sha256 = identity::HashToken("esp_not_in_the_input")});
    ESPALIER_CHECK(added.has_value());
    auto server = io::HttpServer::Listen(loop_, "unix:" + path_,
                                         [this](const io::HttpRequest& request, auto respond) {
                                           // As if it came over TCP, as every caller on a unix
                                           // socket is an admin.
                                           io::HttpRequest from_afar = request;
                                           from_afar.from_unix_socket = false;
                                           guard_.Handle(from_afar, respond);
                                         });
    ESPALIER_CHECK(server.has_value());
    server_ = std::move(*server);
  }

  void Take(const std::uint8_t* data, std::size_t size) {
    const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un to = {};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, path_.data(), path_.size());
    ESPALIER_CHECK(::connect(client.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0);
    ::send(client.get(), data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    ::shutdown(client.get(), SHUT_WR);
    const TimerPtr watch = loop_.WatchReadable(client.get(), [&] {
      char answer[4096];
      const ssize_t got = ::recv(client.get(), answer, sizeof(answer), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) loop_.Stop();
    });
    // A connection without a whole request is closed when the client closes its half.
    const TimerPtr limit = loop_.After(
        std::chrono::seconds(20), [&] { ESPALIER_CHECK(false, "the connection is not closed"); });
    loop_.Run();
  }

 private:
  const fuzz::OwnFolder folder_;
  const std::string path_ = folder_.path() + "/http";
  io::AsioEventLoop loop_;
  identity::AccessTokens tokens_;
  controller::HttpGuard guard_;
  std::unique_ptr<io::HttpServer> server_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Server server;
  server.Take(data, size);
  return 0;
}
