#include "deploy/lab/link_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "common/os/netlink.h"
#include "common/os/os_error.h"
#include "deploy/lab/namespaces.h"

namespace espalier::lab {
namespace {

// Requests the state of all interfaces, which arrives in the form of changes.
Result<void> RequestStates(int socket) {
  alignas(nlmsghdr) std::array<std::byte, NLMSG_SPACE(sizeof(ifinfomsg))> memory;
  nlmsghdr* const request = mnl_nlmsg_put_header(memory.data());
  request->nlmsg_type = RTM_GETLINK;
  request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  mnl_nlmsg_put_extra_header(request, sizeof(ifinfomsg));
  if (::send(socket, request, request->nlmsg_len, 0) < 0) return FailErrno("rtnetlink", errno);
  return {};
}

// The interface's name; empty if it is not among the attributes.
std::string NameIn(netlink::Bytes attributes) {
  std::string name;
  netlink::ForEachAttribute(attributes, [&name](int kind, netlink::Bytes value) {
    if (kind == IFLA_IFNAME) name = netlink::TextIn(value);
  });
  return name;
}

}  // namespace

LinkWatch::LinkWatch(const fabric::Topology& topology) : topology_(&topology) {
  for (std::size_t i = 0; i < topology.links().size(); ++i) {
    const fabric::LinkId id(static_cast<std::int32_t>(i));
    if (!topology.IsFabricLink(id)) continue;
    const fabric::Link& link = topology.link(id);
    links_.emplace(Interface{link.a, link.a_port}, id);
    links_.emplace(Interface{link.b, link.b_port}, id);
  }
}

Result<LinkWatch> LinkWatch::Start(const Lab& lab) {
  const Result<NamespaceContext> door = NamespaceContext::Open(lab.record().pid);
  if (!door) return tl::unexpected(door.error());
  if (const int error = door->Enter(nullptr); error != 0)
    return FailErrno("entering the lab", error);
  LinkWatch watch(lab.topology());
  std::set<fabric::NodeId> nodes;
  for (const auto& [interface, link] : watch.links_) nodes.insert(interface.first);
  for (const fabric::NodeId node : nodes) {
    if (Result<void> followed = watch.Follow(node); !followed) return Propagate(followed);
  }
  return watch;
}

Result<void> LinkWatch::Follow(fabric::NodeId node) {
  const std::string path = fmt::format("{}/{}", kNetnsFolder, topology_->node(node).id);
  const UniqueFd space(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!space) return FailErrno(path, errno);
  if (::setns(space.get(), CLONE_NEWNET) != 0) return FailErrno(path, errno);
  UniqueFd events(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  // Subscribes before requesting the states, so that a change in between is reported twice rather
  // than missed.
  if (!events ||
      ::bind(events.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return FailErrno("rtnetlink of " + path, errno);
  }
  if (Result<void> asked = RequestStates(events.get()); !asked) return asked;
  switches_.push_back({node, std::move(events)});
  return {};
}

Result<std::vector<LinkChange>> LinkWatch::Next() {
  std::vector<pollfd> polls;
  for (const Switch& source : switches_) polls.push_back({source.events.get(), POLLIN, 0});
  while (true) {
    std::vector<LinkChange> changes;
    for (const fabric::LinkId id : std::exchange(changed_, {})) {
      const fabric::Link& link = topology_->link(id);
      const bool up =
          !down_.contains({link.a, link.a_port}) && !down_.contains({link.b, link.b_port});
      const bool is_news = up ? told_down_.erase(id) > 0 : told_down_.insert(id).second;
      if (is_news) changes.push_back({id, up});
    }
    if (!changes.empty()) return changes;
    if (interval_ && Clock::now() >= next_measurement_) {
      if (Result<void> measured = Measure(); !measured) return Propagate(measured);
      if (!loads_.empty()) return changes;
    }
    if (::poll(polls.data(), polls.size(), UntilMeasurement()) < 0 && errno != EINTR) {
      return FailErrno("poll", errno);
    }
    for (std::size_t i = 0; i < switches_.size(); ++i) {
      if (polls[i].revents == 0) continue;
      if (Result<void> taken = TakeEvents(switches_[i]); !taken) return Propagate(taken);
    }
  }
}

void LinkWatch::MeasureLoads(std::chrono::milliseconds interval) {
  interval_ = interval;
  next_measurement_ = Clock::now();
}

std::vector<LinkLoad> LinkWatch::TakeLoads() { return std::exchange(loads_, {}); }

int LinkWatch::UntilMeasurement() const {
  if (!interval_) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(next_measurement_ - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

Result<void> LinkWatch::Measure() {
  next_measurement_ = Clock::now() + *interval_;
  for (const Switch& source : switches_) {
    if (Result<void> asked = RequestStates(source.events.get()); !asked) return asked;
    if (Result<void> taken = TakeEvents(source); !taken) return taken;
  }
  loads_.clear();
  for (const auto& [interface, sent] : sent_) {
    const auto before = sent_before_.find(interface);
    if (before == sent_before_.end() || sent.read <= before->second.read ||
        sent.bytes < before->second.bytes) {
      continue;
    }
    const fabric::LinkId id = links_.at(interface);
    const bool is_a = Interface{topology_->link(id).a, topology_->link(id).a_port} == interface;
    const double seconds = std::chrono::duration<double>(sent.read - before->second.read).count();
    loads_.push_back(
        {{id, is_a}, 8 * static_cast<double>(sent.bytes - before->second.bytes) / seconds});
  }
  std::sort(loads_.begin(), loads_.end(),
            [](const LinkLoad& x, const LinkLoad& y) { return x.link.Index() < y.link.Index(); });
  sent_before_ = sent_;
  return {};
}

void LinkWatch::TakeInterface(const Switch& source, std::span<const std::byte> payload) {
  ifinfomsg link;
  if (payload.size() < sizeof(link)) return;
  std::memcpy(&link, payload.data(), sizeof(link));
  const netlink::Bytes attributes = payload.subspan(sizeof(link));
  const Interface interface { source.node, NameIn(attributes) };
  constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
  SetState(interface, (link.ifi_flags & kUp) == kUp);
  if (!links_.contains(interface)) return;
  netlink::ForEachAttribute(attributes, [&](int kind, netlink::Bytes value) {
    rtnl_link_stats64 counters;
    if (kind != IFLA_STATS64 || value.size() < sizeof(counters)) return;
    std::memcpy(&counters, value.data(), sizeof(counters));
    sent_[interface] = {counters.tx_bytes, Clock::now()};
  });
}

Result<void> LinkWatch::TakeEvents(const Switch& source) {
  alignas(nlmsghdr) std::array<std::byte, 32'768> buffer;
  while (true) {
    const ssize_t size = ::recv(source.events.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return {};
    if (size < 0 && errno == ENOBUFS) {  // some events were lost
      if (Result<void> asked = RequestStates(source.events.get()); !asked) return asked;
      continue;
    }
    if (size < 0) return FailErrno("rtnetlink of " + topology_->node(source.node).id, errno);
    const netlink::Bytes messages(buffer.data(), static_cast<std::size_t>(size));
    netlink::ForEachMessage(messages, [&](const nlmsghdr& header, netlink::Bytes payload) {
      if (header.nlmsg_type == RTM_NEWLINK) TakeInterface(source, payload);
    });
  }
}

void LinkWatch::SetState(const Interface& interface, bool up) {
  const auto link = links_.find(interface);
  if (link == links_.end()) return;
  const bool changes = up ? down_.erase(interface) > 0 : down_.insert(interface).second;
  if (changes) changed_.insert(link->second);
}

}  // namespace espalier::lab
