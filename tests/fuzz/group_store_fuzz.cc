// A group's rendezvous store over TCP: its server with a hostile client, and its client with a
// hostile server.
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "collective/transport/rendezvous/tcp_socket.h"
#include "collective/transport/stores/tcp_store.h"
#include "collective/transport/stores/tcp_store_server.h"
#include "common/base/check.h"

namespace {

using espalier::UniqueFd;
using espalier::transport::Accept;
using espalier::transport::AwaitSocket;
using espalier::transport::Deadline;
using espalier::transport::Dial;
using espalier::transport::Listen;
using espalier::transport::LocalPort;
using espalier::transport::ParseAddress;
using espalier::transport::TcpStore;
using espalier::transport::TcpStoreServer;

Deadline Soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

// Closes the connection without leaving a port in TIME_WAIT.
void Reset(int socket) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

void TryServer(const std::string& said) {
  static const auto server = *TcpStoreServer::Listen("127.0.0.1", 0, {});
  static const auto to = *ParseAddress("127.0.0.1", server->port());
  auto client = Dial(*ParseAddress("127.0.0.1", 0), to, Soon());
  ESPALIER_CHECK(client.has_value(), "the server is gone");
  Reset(client->get());
  // The greeting of 40 bytes arrives in every case.
  char greeting[40];
  if (!espalier::transport::ReceiveWhole(client->get(), greeting, sizeof(greeting), Soon())) return;
  ::send(client->get(), said.data(), said.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(client->get(), SHUT_WR);
  char answer[512];
  while (AwaitSocket(client->get(), POLLIN, Soon()) &&
         ::recv(client->get(), answer, sizeof(answer), 0) > 0) {
  }
}

void TryClient(const std::string& said) {
  static const UniqueFd listener = std::move(*Listen(*ParseAddress("127.0.0.1", 0)));
  static const auto store = *TcpStore::At("127.0.0.1", *LocalPort(listener.get()), {});
  std::thread server([&] {
    if (!AwaitSocket(listener.get(), POLLIN, Soon())) return;
    const UniqueFd caller = Accept(listener.get());
    ::send(caller.get(), said.data(), said.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    Reset(caller.get());
    ::shutdown(caller.get(), SHUT_WR);
    // Waits until the client has read it and is gone.
    AwaitSocket(caller.get(), POLLRDHUP, Soon());
  });
  const auto value = store->Get("key", Soon());
  server.join();
  if (value) ESPALIER_CHECK(value->size() <= said.size(), "a value that nobody sent");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string said(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) TryServer(said);
  if (data[0] % 2 == 1) TryClient(said);
  return 0;
}
