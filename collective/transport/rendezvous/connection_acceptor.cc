#include "collective/transport/rendezvous/connection_acceptor.h"

#include <algorithm>
#include <utility>

#include "collective/transport/rendezvous/tcp_socket.h"

namespace espalier::transport {
namespace {

// Of those who have not proven themselves.
constexpr std::size_t kMaxCallers = 256;
constexpr std::chrono::seconds kLongestSilence{10};
// New ones in one go: however many there are, those who came before are heard in between.
constexpr int kMaxAtOnce = 1024;

}  // namespace

void ConnectionAcceptor::AddTo(std::vector<pollfd>& polled) const {
  polled.push_back({listener(), POLLIN, 0});
  for (const Caller& caller : callers_) polled.push_back({caller.answer.socket(), POLLIN, 0});
}

void ConnectionAcceptor::Serve(const IsExpected& is_expected, const Welcome& welcome) {
  for (int i = 0; i < kMaxAtOnce; ++i) {
    UniqueFd socket = Accept(listener());
    if (!socket) break;
    // Who has said something is heard before somebody has to give way.
    if (callers_.size() >= kMaxCallers) Hear(is_expected, welcome);
    if (callers_.size() >= kMaxCallers) MakeRoom();
    callers_.push_back({HandshakeServer(std::move(socket)), std::chrono::steady_clock::now()});
  }
  Hear(is_expected, welcome);
}

void ConnectionAcceptor::Hear(const IsExpected& is_expected, const Welcome& welcome) {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(callers_, [&](Caller& caller) {
    const Progress progress = caller.answer.Move(key_, is_expected);
    if (progress == Progress::kGoesOn) return now - caller.since >= kLongestSilence;
    // Others are dropped without a word.
    if (progress == Progress::kDone) welcome(caller.answer.hello(), caller.answer.TakeSocket());
    return true;
  });
}

// The oldest gives way, of those who do not even know the group if there are any.
void ConnectionAcceptor::MakeRoom() {
  const auto stranger = std::find_if(callers_.begin(), callers_.end(), [](const Caller& caller) {
    return !caller.answer.knows_group();
  });
  callers_.erase(stranger == callers_.end() ? callers_.begin() : stranger);
}

}  // namespace espalier::transport
