#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/base/user_budget.h"
#include "common/os/message_socket.h"

namespace espalier {

// The server's end of a SEQPACKET unix socket that programs of all users may call: knows who calls
// and how many callers each user has, and says which caller has something to read.
//
// Callers are not trusted. A caller is silent until it is admitted. There are at most `most` silent
// callers and as many admitted ones, of one user at most `max_per_user` of each kind. The oldest
// silent caller gives way to the next one: one of the same user's where that is the limit, so that
// nobody keeps others out by saying nothing.
//
// Thread safety: one thread. Never blocks. Complexity: O(log callers) for each that has something
// to read, O(callers) to make room.
class MessageServer {
 public:
  struct Caller {
    std::uint32_t number = 0;  // from 1, in the order of connection; used again after 2^32 callers
    LocalPeer peer;
    UniqueFd socket;
    bool is_admitted = false;
  };
  struct Limits {
    std::size_t most;
    std::size_t max_per_user;
  };
  struct Handlers {
    // The caller has something to read, or has hung up. False: it has to go.
    std::function<bool(Caller&)> on_readable;
    // The caller goes; its socket is still open.
    std::function<void(const Caller&)> on_gone;
    // A caller was turned away before it was admitted.
    std::function<void()> on_refused;
  };

  MessageServer(Limits limits, Handlers handlers);
  // Removes the socket's file.
  ~MessageServer();
  MessageServer(const MessageServer&) = delete;
  MessageServer& operator=(const MessageServer&) = delete;

  // Errors: those of ListenOnPath, and kInternal where the system has no descriptors left.
  Result<void> Listen(const std::string& path);

  // Readable when HandleReady has something to do. Level-triggered.
  int fd() const { return epoll_.get(); }
  // Accepts callers and calls the handlers. Bounded work.
  void HandleReady();

  // False, and nothing is changed, where there are too many admitted callers, in all or of its
  // user.
  bool Admit(Caller& caller);
  // Not from within on_gone, and in on_readable by returning false.
  void Remove(std::uint32_t number);

  std::size_t admitted() const { return admitted_.used(); }

 private:
  static constexpr int kEventsPerTurn = 64;

  bool Watch(int fd, std::uint32_t tag) const;
  void AcceptAll();
  bool Accept(UniqueFd socket);
  bool MakeRoomForSilent(uid_t user);
  std::uint32_t NextNumber();

  const Limits limits_;
  const Handlers handlers_;
  std::string path_;
  UniqueFd epoll_;
  UniqueFd listener_;
  UniqueFd spare_;
  std::uint32_t last_number_ = 0;
  std::map<std::uint32_t, Caller> callers_;
  UserBudget silent_;
  UserBudget admitted_;
};

}  // namespace espalier
