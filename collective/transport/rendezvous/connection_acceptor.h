#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "collective/transport/base/fork_guard.h"
#include "collective/transport/rendezvous/handshake.h"
#include "common/base/unique_fd.h"
#include "common/base/users/job_key.h"

namespace espalier::transport {

// Accepts connections of the other ranks of a group, and keeps strangers from disturbing it.
//
// Problem: anybody who reaches the listening socket can connect, send anything or nothing, and try
// to exhaust descriptors, while real peers must get through. Idea: every new connection is a caller
// in a handshake, which advances without blocking. The number of callers is bounded: when it is
// full, the oldest caller leaves, first among those that have not shown the group's number from the
// rendezvous store. Callers that stay silent for too long leave, too. Invariant: a connection is
// passed on only after its handshake has proven the group's key; at most 256 connections wait for
// that. Cost: O(callers) for each Serve.
// Thread safety: one thread at a time.
class ConnectionAcceptor {
 public:
  using IsExpected = std::function<bool(const Hello&)>;
  using Welcome = std::function<void(const Hello&, UniqueFd)>;

  // `listener`: a non-blocking socket that listens. `longest_silence`: how long a handshake may
  // take.
  ConnectionAcceptor(std::shared_ptr<const UniqueFd> listener, const std::optional<JobKey>& key,
                     std::chrono::milliseconds longest_silence = std::chrono::seconds(10))
      : listener_(std::move(listener)),
        key_(key),
        longest_silence_(longest_silence),
        guard_(listener_->get()) {}

  int listener() const { return listener_->get(); }
  // Adds all sockets on which events may come.
  void AddTo(std::vector<pollfd>& polled) const;
  // Accepts new connections, advances all handshakes, and passes expected ranks that have proven
  // the group's key to `welcome`. Never blocks.
  void Serve(const IsExpected& is_expected, const Welcome& welcome);

 private:
  struct Caller {
    HandshakeServer handshake;
    std::chrono::steady_clock::time_point since;
  };
  void AdvanceHandshakes(const IsExpected& is_expected, const Welcome& welcome);
  void DropOneCaller();

  std::shared_ptr<const UniqueFd> listener_;
  std::optional<JobKey> key_;
  std::chrono::milliseconds longest_silence_;
  ForkGuard guard_;
  std::vector<Caller> callers_;  // oldest first
};

}  // namespace espalier::transport
