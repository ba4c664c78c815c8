#include "agent/host/nic_watch.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "proto/limits.h"

namespace espalier::agent {
namespace {

// Returns none for link-local addresses and for other families than IP.
IpAddress AddressOf(const sockaddr* address) {
  if (address == nullptr) return {};
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof(v4));
    return IpAddress::FromV4(ntohl(v4.sin_addr.s_addr));
  }
  if (address->sa_family != AF_INET6) return {};
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof(v6));
  if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) return {};
  IpAddress::Bytes bytes;
  std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
  return IpAddress(bytes);
}

bool IsSelected(const std::vector<std::string>& selection, const wire::Nic& nic) {
  if (selection.empty()) return true;
  const std::string address = nic.address.ToString();
  return std::any_of(selection.begin(), selection.end(), [&](const std::string& wanted) {
    return wanted == nic.device || wanted == address;
  });
}

bool IsNamed(const std::vector<std::string>& selection, const IpAddress& address) {
  return std::ranges::find(selection, address.ToString()) != selection.end();
}

Result<std::vector<wire::Nic>> ListNics(const std::vector<std::string>& selection) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return Fail(ErrorCode::kInternal, fmt::format("getifaddrs: {}", std::strerror(errno)));
  }
  std::map<IpAddress, wire::Nic> nics;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const IpAddress address = AddressOf(entry->ifa_addr);
    if (address.IsNone()) continue;
    const unsigned int up = IFF_UP | IFF_RUNNING;
    const wire::Nic nic{
        .address = address, .device = entry->ifa_name, .link_up = (entry->ifa_flags & up) == up};
    // A host whose NIC has several uplinks may have its address on the loopback interface.
    const bool is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (is_loopback && !IsNamed(selection, address)) continue;
    if (nics.size() < wire::kMaxNics && IsSelected(selection, nic)) nics.emplace(address, nic);
  }
  freeifaddrs(list);
  std::vector<wire::Nic> listed;
  for (const auto& [address, nic] : nics) listed.push_back(nic);
  return listed;
}

}  // namespace

Result<std::unique_ptr<NicWatch>> NicWatch::Open(std::vector<std::string> selection) {
  std::unique_ptr<NicWatch> watch(new NicWatch(std::move(selection)));
  // Subscribing before listing means that a change in between is seen twice rather than missed.
  watch->netlink_ =
      UniqueFd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!watch->netlink_ || bind(watch->netlink_.get(), reinterpret_cast<const sockaddr*>(&address),
                               sizeof(address)) != 0) {
    return Fail(ErrorCode::kInternal, fmt::format("rtnetlink: {}", std::strerror(errno)));
  }
  Result<std::vector<wire::Nic>> nics = ListNics(watch->selection_);
  if (!nics) return Propagate(nics);
  watch->nics_ = std::move(*nics);
  return watch;
}

bool NicWatch::Has(const IpAddress& address) const {
  return std::ranges::binary_search(nics_, address, {}, &wire::Nic::address);
}

void NicWatch::OnChange(std::function<void(const wire::Nic&)> callback) {
  on_change_ = std::move(callback);
}

void NicWatch::HandleReady() {
  // The messages only trigger a new list, as some of them may be lost (ENOBUFS).
  std::array<char, 8192> message;
  while (recv(netlink_.get(), message.data(), message.size(), 0) > 0 || errno == ENOBUFS ||
         errno == EINTR) {
    errno = 0;
  }
  Result<std::vector<wire::Nic>> now = ListNics(selection_);
  if (!now) return;  // out of memory: the next message tries again
  std::vector<wire::Nic> changed;
  for (const wire::Nic& nic : *now) {
    if (std::find(nics_.begin(), nics_.end(), nic) == nics_.end()) changed.push_back(nic);
  }
  for (wire::Nic& nic : nics_) {
    const bool is_there = std::any_of(now->begin(), now->end(), [&nic](const wire::Nic& other) {
      return other.address == nic.address;
    });
    if (is_there) continue;
    if (nic.link_up) {
      nic.link_up = false;
      changed.push_back(nic);
    }
    now->push_back(nic);  // keeps it, so that its return is reported
  }
  std::sort(now->begin(), now->end(),
            [](const wire::Nic& a, const wire::Nic& b) { return a.address < b.address; });
  nics_ = std::move(*now);
  for (const wire::Nic& nic : changed) {
    if (on_change_) on_change_(nic);
  }
}

}  // namespace espalier::agent
