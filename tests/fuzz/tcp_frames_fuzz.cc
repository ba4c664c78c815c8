// Arbitrary bytes that a peer sends on a connection between ranks.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/transport/tcp/slot_pool.h"
#include "collective/transport/tcp/tcp_connection.h"
#include "common/base/check.h"

namespace {

using espalier::transport::Message;
using espalier::transport::Piece;
using espalier::transport::SlotPool;
using espalier::transport::TcpConnection;
using espalier::transport::TcpReceiver;
using espalier::transport::ZeroCopySendToken;

constexpr std::size_t kSlotBytes = 4096;
constexpr int kSlots = 2;

// Receives a message in the way that the input selects; returns false if there is none.
bool TakeOne(TcpReceiver& inbox, std::uint8_t way, std::vector<std::byte>& place) {
  if (way % 3 == 2) {
    std::size_t end = 0;
    const auto take = [&](const Piece& piece) -> espalier::Result<void> {
      ESPALIER_CHECK(piece.offset == end && piece.whole <= kSlotBytes);
      end += piece.bytes.size();
      ESPALIER_CHECK(end <= piece.whole);
      return {};
    };
    const auto taken = inbox.TryConsume(place.size(), take);
    if (!taken || !*taken) return false;
  } else {
    const Message* const message =
        way % 3 == 1 ? inbox.TryReceive(place.data(), place.size()) : inbox.TryPeek();
    if (message == nullptr) return false;
    ESPALIER_CHECK(message->bytes.size() <= kSlotBytes, "bytes={}", message->bytes.size());
    // Checks that every byte can be read.
    static_cast<void>(std::count(message->bytes.begin(), message->bytes.end(), std::byte{}));
  }
  inbox.Release();
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint8_t way = data[0];
  // The size of each received part, and the size of the expected message.
  const std::size_t part = std::size_t{1} + data[1];
  std::span<const std::uint8_t> rest(data + 2, size - 2);
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return 0;
  const espalier::UniqueFd peer(ends[0]);
  SlotPool pool(kSlotBytes, std::pmr::get_default_resource());
  ZeroCopySendToken turn;
  TcpConnection connection(espalier::UniqueFd(ends[1]), 1, kSlots, pool, turn);
  std::vector<std::byte> place(std::min(kSlotBytes, std::size_t{16} * data[1]));
  std::size_t taken = 0;
  while (!rest.empty() && !connection.Failure()) {
    const auto now = rest.first(std::min(part, rest.size()));
    if (::send(peer.get(), now.data(), now.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
    rest = rest.subspan(now.size());
    connection.MarkReady(POLLIN);
    while (connection.receiver().Receive() || TakeOne(connection.receiver(), way, place)) {
      ESPALIER_CHECK(++taken <= 2 * size + 16, "more messages than were sent");
    }
  }
  return 0;
}
