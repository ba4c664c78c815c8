#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "proto/messages.h"

namespace espalier::agent {

// Watches the NICs of this host and the state of their links through rtnetlink. There is one entry
// for each address, as flows name NICs by their addresses. An address that disappears counts as a
// link that is down.
// Thread safety: the agent's loop thread.
class NicWatch {
 public:
  // `selection`: names of devices, or addresses. Empty: all NICs but loopback, with their IPv4 and
  // global IPv6 addresses. An address of the loopback interface counts only if it is named. Errors:
  // kInternal, kResourceExhausted from the kernel.
  static Result<std::unique_ptr<NicWatch>> Open(std::vector<std::string> selection);

  // Readable when HandleReady has something to do. Level-triggered.
  int fd() const { return netlink_.get(); }
  // Lists the NICs again and calls back for each that has changed.
  void HandleReady();

  // Ascending by address.
  const std::vector<wire::Nic>& nics() const { return nics_; }
  // Whether a NIC has, or had, this address.
  bool Has(const IpAddress& address) const;
  void OnChange(std::function<void(const wire::Nic&)> callback);

 private:
  explicit NicWatch(std::vector<std::string> selection) : selection_(std::move(selection)) {}

  const std::vector<std::string> selection_;
  UniqueFd netlink_;
  std::vector<wire::Nic> nics_;
  std::function<void(const wire::Nic&)> on_change_;
};

}  // namespace espalier::agent
