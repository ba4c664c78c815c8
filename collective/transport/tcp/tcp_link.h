#pragma once

#include <string>
#include <utility>

#include "collective/transport/base/fork_guard.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {

// The socket that both halves of a TcpConnection share, and the reason if it is broken.
class TcpLink {
 public:
  explicit TcpLink(UniqueFd socket) : socket_(std::move(socket)), guard_(socket_.get()) {}

  int socket() const { return socket_.get(); }
  bool is_broken() const { return is_broken_; }
  const std::string& why_broken() const { return why_broken_; }
  void Break(std::string why) {
    is_broken_ = true;
    why_broken_ = std::move(why);
  }

 private:
  UniqueFd socket_;
  const ForkGuard guard_;
  bool is_broken_ = false;
  std::string why_broken_;
};

}  // namespace espalier::transport
