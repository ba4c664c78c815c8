// Input on a connection before the other end is authenticated, at both ends; the published endpoint
// of a rank; a key as text.
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "collective/transport/rendezvous/handshake.h"
#include "collective/transport/rendezvous/published_endpoint.h"
#include "common/base/check.h"

namespace {

using espalier::JobKey;
using espalier::UniqueFd;
using espalier::transport::HandshakeClient;
using espalier::transport::HandshakeServer;
using espalier::transport::Hello;
using espalier::transport::Progress;
using espalier::transport::PublishedEndpoint;

const JobKey kKey(JobKey::Bytes{1, 2, 3});

// A peer without the key is refused, whatever it sends, as the nonces are fresh.
void TryHandshake(std::string_view said, bool is_keyed) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return;
  const UniqueFd peer(ends[0]);
  const std::optional<JobKey> key = is_keyed ? std::optional(kKey) : std::nullopt;
  if (::send(peer.get(), said.data(), said.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  const auto is_expected = [](const Hello& hello) { return hello.to == 0 && hello.from == 1; };
  if (said.size() % 2 == 0) {
    HandshakeServer answer{UniqueFd(ends[1])};
    const Progress progress = answer.Advance(key, is_expected);
    ESPALIER_CHECK(progress != Progress::kDone || !is_keyed);
    ESPALIER_CHECK(!answer.knows_group() || is_expected(answer.hello()));
  } else {
    HandshakeClient call{UniqueFd(ends[1]), Hello{.from = 1}, key};
    ESPALIER_CHECK(call.Advance() != Progress::kDone || !is_keyed);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  TryHandshake(rest, data[0] % 2 == 1);
  const auto place = PublishedEndpoint::Parse(std::string(rest), 4);
  if (place) {
    const auto again = PublishedEndpoint::Parse(place->ToText(), 4);
    ESPALIER_CHECK(again && again->address == place->address && again->port == place->port &&
                   again->group == place->group);
  }
  const auto key = JobKey::Parse(rest);
  if (key) ESPALIER_CHECK(*JobKey::Parse(key->ToText()) == *key);
  return 0;
}
