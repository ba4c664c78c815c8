#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/base/users/user_budget.h"
#include "common/os/local_peer.h"
#include "common/os/message_socket.h"

namespace espalier {

// The server's end of a SEQPACKET unix socket that programs of all users may call. It identifies
// the callers, limits how many each user has, and reports which callers have something to read.
//
// Callers are not trusted. A caller is silent until it is admitted. There are at most `most` silent
// and `most` admitted callers, and at most `max_per_user` of each kind per user (LocalPeer::payer).
// Beyond `most` the user with the most gives way to those with fewer: it loses its oldest silent
// caller, or its newest admitted one. If nobody has more, a new silent caller replaces the oldest
// one of its own user, if there is one, else the oldest of all.
//
// Thread safety: one thread. Never blocks. Complexity: O(log callers) for each caller with
// something to read, O(callers) to make room.
class MessageServer {
 public:
  struct Caller {
    std::uint32_t number =
        0;  // from 1, in the order of connection; wraps around after 2^32 callers
    LocalPeer peer;
    UniqueFd socket;
    bool is_admitted = false;
  };
  struct Limits {
    std::size_t most;
    std::size_t max_per_user;
  };
  struct Handlers {
    // The caller has something to read, or has hung up. Return false to remove it.
    std::function<bool(Caller&)> on_readable;
    // The caller is being removed; its socket is still open.
    std::function<void(const Caller&)> on_gone;
    // A caller was refused or removed before it was admitted.
    std::function<void()> on_refused;
  };

  MessageServer(Limits limits, Handlers handlers);
  // Also removes the socket's file.
  ~MessageServer();
  MessageServer(const MessageServer&) = delete;
  MessageServer& operator=(const MessageServer&) = delete;

  // Errors: those of ListenOnPath, and kInternal if the system has no descriptors left.
  Result<void> Listen(const std::string& path);

  // Readable when HandleReady has something to do. Level-triggered.
  int fd() const { return epoll_.get(); }
  // Accepts callers and calls the handlers. Bounded work.
  void HandleReady();

  // Admits the caller, and removes another user's caller if that has to give way. Returns false and
  // changes nothing if its user has too many admitted callers, or as many as anybody when there are
  // too many in total.
  bool Admit(Caller& caller);
  // Removes a caller. Do not call it in on_gone; in on_readable, return false instead.
  void Remove(std::uint32_t number);

  std::size_t admitted() const { return admitted_.used(); }

 private:
  static constexpr int kEventsPerTurn = 64;

  bool Watch(int fd, std::uint32_t tag) const;
  void AcceptAll();
  bool Accept(UniqueFd socket);
  bool MakeRoomForSilent(BudgetOwner user);
  std::uint32_t NextNumber();

  const Limits limits_;
  const Handlers handlers_;
  std::string path_;
  UniqueFd epoll_;
  UniqueFd listener_;
  UniqueFd spare_;
  std::uint32_t last_number_ = 0;
  std::map<std::uint32_t, Caller> callers_;
  LocalPeers peers_;
  UserBudget silent_;
  UserBudget admitted_;
};

}  // namespace espalier
