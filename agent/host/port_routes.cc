#include "agent/host/port_routes.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "common/os/netlink.h"

namespace espalier::agent {
namespace {

constexpr std::chrono::seconds kRemembered{1};
constexpr std::size_t kMostKnown = 4096;
constexpr std::size_t kRouteQueryBytes = 256;
constexpr std::size_t kRouteBytes = 8192;  // of a route with many next hops

void PutAddress(nlmsghdr* request, std::uint16_t type, const IpAddress& address) {
  const std::uint32_t value = htonl(address.V4());
  mnl_attr_put(request, type, sizeof(value), &value);
}

void PutPort(nlmsghdr* request, std::uint16_t type, std::uint16_t port) {
  mnl_attr_put_u16(request, type, htons(port));
}

// Policy 3: the fields that an operator has chosen.
bool HashesChosenFields() {
  std::ifstream file("/proc/sys/net/ipv4/fib_multipath_hash_policy");
  int policy = 0;
  return file >> policy && policy == 3;
}

}  // namespace

Result<PortRoutes> PortRoutes::Open() {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!socket) {
    const bool is_full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS;
    return Fail(is_full ? ErrorCode::kResourceExhausted : ErrorCode::kInternal,
                std::string("rtnetlink: ") + std::strerror(errno));
  }
  return PortRoutes(std::move(socket));
}

PortRoutes::Answer PortRoutes::Ask(const Probe& probe, Wanted wanted) {
  alignas(nlmsghdr) std::array<std::byte, kRouteQueryBytes> memory;
  nlmsghdr* const request = mnl_nlmsg_put_header(memory.data());
  request->nlmsg_type = RTM_GETROUTE;
  request->nlmsg_flags = NLM_F_REQUEST;
  request->nlmsg_seq = ++sequence_;
  auto* const route = static_cast<rtmsg*>(mnl_nlmsg_put_extra_header(request, sizeof(rtmsg)));
  route->rtm_family = AF_INET;
  route->rtm_dst_len = 32;
  route->rtm_src_len = 32;
  if (wanted == Wanted::kEntry) route->rtm_flags = RTM_F_FIB_MATCH;
  PutAddress(request, RTA_DST, probe.destination);
  PutAddress(request, RTA_SRC, probe.source);
  mnl_attr_put_u8(request, RTA_IP_PROTO, probe.flow_protocol);
  PutPort(request, RTA_SPORT, probe.source_port);
  PutPort(request, RTA_DPORT, probe.destination_port);
  if (::send(socket_.get(), request, request->nlmsg_len, 0) < 0) return {};
  // The kernel answers before send returns. Answers to earlier requests were read or lost.
  Answer answer;
  alignas(nlmsghdr) std::array<std::byte, kRouteBytes> buffer;
  for (bool is_found = false; !is_found;) {
    const ssize_t size = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return {};
    const netlink::Bytes bytes(buffer.data(), static_cast<std::size_t>(size));
    netlink::ForEachMessage(bytes, [&](const nlmsghdr& header, netlink::Bytes payload) {
      if (header.nlmsg_seq != sequence_) return;
      is_found = true;  // also if it is an error
      if (header.nlmsg_type != RTM_NEWROUTE || payload.size() < sizeof(rtmsg)) return;
      netlink::ForEachAttribute(payload.subspan(sizeof(rtmsg)),
                                [&](int type, netlink::Bytes value) {
                                  if (type == RTA_OIF) answer.interface = netlink::NumberIn(value);
                                  if (type == RTA_MULTIPATH) answer.has_next_hops = true;
                                });
    });
  }
  return answer;
}

PortRoutes::Known PortRoutes::ChoiceOf(const Probe& probe) {
  const Clock::time_point now = Clock::now();
  if (known_.size() >= kMostKnown) known_.clear();
  Known& known = known_[probe.destination];
  if (now < known.until) return known;
  known = {.has_choice = Ask(probe, Wanted::kEntry).has_next_hops,
           .is_told = !HashesChosenFields(),
           .until = now + kRemembered};
  return known;
}

Result<unsigned> PortRoutes::InterfaceOf(const Probe& probe) {
  if (!probe.source.IsV4() || !probe.destination.IsV4()) return 0U;
  const Known choice = ChoiceOf(probe);
  if (!choice.has_choice) return 0U;
  if (choice.is_told) return Ask(probe, Wanted::kNextHop).interface;
  return Fail(
      ErrorCode::kFailedPrecondition,
      fmt::format("the route to {} has several next hops, and with "
                  "fib_multipath_hash_policy 3 the kernel does not tell which it takes (set "
                  "net.ipv4.fib_multipath_hash_policy to 1 on this host)",
                  probe.destination.ToString()));
}

}  // namespace espalier::agent
