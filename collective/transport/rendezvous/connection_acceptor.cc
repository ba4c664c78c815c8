#include "collective/transport/rendezvous/connection_acceptor.h"

#include <algorithm>
#include <utility>

#include "collective/transport/rendezvous/tcp_socket.h"

namespace espalier::transport {
namespace {

// The most connections whose handshake has not completed.
constexpr std::size_t kMaxCallers = 256;
// The most connections accepted at a time, so that handshakes advance even in a flood.
constexpr int kMaxAtOnce = 1024;

}  // namespace

void ConnectionAcceptor::AddTo(std::vector<pollfd>& polled) const {
  polled.push_back({listener(), POLLIN, 0});
  for (const Caller& caller : callers_) polled.push_back({caller.handshake.socket(), POLLIN, 0});
}

void ConnectionAcceptor::Serve(const IsExpected& is_expected, const Welcome& welcome) {
  for (int i = 0; i < kMaxAtOnce; ++i) {
    UniqueFd socket = Accept(listener());
    if (!socket) break;
    // Advance the handshakes first: completed ones make room without an eviction.
    if (callers_.size() >= kMaxCallers) AdvanceHandshakes(is_expected, welcome);
    if (callers_.size() >= kMaxCallers) DropOneCaller();
    callers_.push_back({HandshakeServer(std::move(socket)), std::chrono::steady_clock::now()});
  }
  AdvanceHandshakes(is_expected, welcome);
}

void ConnectionAcceptor::AdvanceHandshakes(const IsExpected& is_expected, const Welcome& welcome) {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(callers_, [&](Caller& caller) {
    const Progress progress = caller.handshake.Advance(key_, is_expected);
    if (progress == Progress::kGoesOn) return now - caller.since >= longest_silence_;
    // Callers whose handshake has failed are dropped without a reply.
    if (progress == Progress::kDone)
      welcome(caller.handshake.hello(), caller.handshake.TakeSocket());
    return true;
  });
}

// Drops the oldest caller, preferring those that have not shown the group's number.
void ConnectionAcceptor::DropOneCaller() {
  const auto stranger = std::find_if(callers_.begin(), callers_.end(), [](const Caller& caller) {
    return !caller.handshake.knows_group();
  });
  callers_.erase(stranger == callers_.end() ? callers_.begin() : stranger);
}

}  // namespace espalier::transport
