#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "collective/transport/base/fork_guard.h"
#include "collective/transport/rendezvous/handshake.h"
#include "common/base/job_key.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {

// Where a rank is called by the others of its group, and by strangers: those keep nobody waiting,
// whatever they say and however many they are.
// Thread safety: one thread at a time.
class ConnectionAcceptor {
 public:
  using IsExpected = std::function<bool(const Hello&)>;
  using Welcome = std::function<void(const Hello&, UniqueFd)>;

  // A socket that listens and does not block.
  ConnectionAcceptor(std::shared_ptr<const UniqueFd> listener, const std::optional<JobKey>& key)
      : listener_(std::move(listener)), key_(key), guard_(listener_->get()) {}

  int listener() const { return listener_->get(); }
  // All sockets on which something may come.
  void AddTo(std::vector<pollfd>& polled) const;
  // Takes whoever calls, hears what all of them say and welcomes those who are expected and have
  // proven that they have the group's key. Never blocks.
  void Serve(const IsExpected& is_expected, const Welcome& welcome);

 private:
  struct Caller {
    HandshakeServer answer;
    std::chrono::steady_clock::time_point since;
  };
  void Hear(const IsExpected& is_expected, const Welcome& welcome);
  void MakeRoom();

  std::shared_ptr<const UniqueFd> listener_;
  std::optional<JobKey> key_;
  ForkGuard guard_;
  std::vector<Caller> callers_;  // the oldest first
};

}  // namespace espalier::transport
