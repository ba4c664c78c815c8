#include "deploy/cli/doctor/path_trial.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "common/base/unique_fd.h"

namespace espalier::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint16_t kRoceDestination = 4791;
constexpr std::uint16_t kFirstPort = 49152;
constexpr std::uint16_t kPortCount = 16384;
constexpr auto kPatience = std::chrono::milliseconds(400);  // for the last answers of a hop
constexpr double kFewAnswers = 0.1;           // of the packets to a hop: nobody is there
constexpr double kLeastAnswers = 0.8;         // else switches limit their answers
constexpr std::size_t kPortsForVerdict = 11;  // show a second path with 99.9 %
constexpr std::size_t kSprayedPorts = 3;      // fewer may be a change of routes

// A socket with a source port, and the number of packets that were answered and by whom.
struct Sender {
  UniqueFd socket;
  std::uint16_t port = 0;
  std::set<IpAddress> answers;
  std::size_t answered = 0;
};

std::optional<Sender> OpenSender(std::uint16_t port) {
  Sender sender{.socket = UniqueFd(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
                .port = port,
                .answers = {}};
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_port = htons(port);
  const int on = 1;
  const int fd = sender.socket.get();
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof from) != 0) return {};
  if (::setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on) != 0) return {};
  return sender;
}

Result<std::vector<Sender>> OpenSenders(int count) {
  std::vector<Sender> senders;
  std::set<std::uint16_t> tried;
  std::mt19937 random{std::random_device{}()};
  while (senders.size() < static_cast<std::size_t>(count) && tried.size() < kPortCount / 2) {
    const auto port = static_cast<std::uint16_t>(kFirstPort + random() % kPortCount);
    if (!tried.insert(port).second) continue;
    if (auto sender = OpenSender(port)) senders.push_back(std::move(*sender));
  }
  if (!senders.empty()) return senders;
  return Fail(ErrorCode::kResourceExhausted,
              fmt::format("cannot open UDP sockets: {}", std::strerror(errno)));
}

void Send(const Sender& sender, const IpAddress& to, int ttl) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kRoceDestination);
  address.sin_addr.s_addr = htonl(to.V4());
  const std::array<char, 16> payload{};
  ::setsockopt(sender.socket.get(), IPPROTO_IP, IP_TTL, &ttl, sizeof ttl);
  // An error of an earlier packet may be reported here once; the packet is sent the second time.
  for (int i = 0; i < 2; ++i) {
    if (::sendto(sender.socket.get(), payload.data(), payload.size(), 0,
                 reinterpret_cast<sockaddr*>(&address), sizeof address) > 0) {
      return;
    }
  }
}

// Takes the answers that have arrived: "time exceeded" of switches.
void Receive(Sender& sender) {
  while (true) {
    alignas(cmsghdr) std::array<char, 512> control{};
    std::array<char, 64> data{};
    iovec piece{.iov_base = data.data(), .iov_len = data.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(sender.socket.get(), &message, MSG_ERRQUEUE) < 0) return;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(&message, part)) {
      constexpr std::size_t kSize = sizeof(sock_extended_err) + sizeof(sockaddr_in);
      if (part->cmsg_level != IPPROTO_IP || part->cmsg_type != IP_RECVERR ||
          part->cmsg_len < CMSG_LEN(kSize)) {
        continue;
      }
      sock_extended_err error{};
      sockaddr_in offender{};
      std::memcpy(&error, CMSG_DATA(part), sizeof error);
      std::memcpy(&offender, CMSG_DATA(part) + sizeof error, sizeof offender);
      if (error.ee_origin != SO_EE_ORIGIN_ICMP || error.ee_type != ICMP_TIME_EXCEEDED) continue;
      if (offender.sin_family != AF_INET) continue;
      sender.answers.insert(IpAddress::FromV4(ntohl(offender.sin_addr.s_addr)));
      ++sender.answered;
    }
  }
}

// Sends one packet of each of the first `count` ports at the pace, and takes answers meanwhile.
void SendRound(std::vector<Sender>& senders, std::size_t count, const IpAddress& to, int ttl,
               int per_second) {
  const auto interval = std::chrono::nanoseconds(1'000'000'000 / per_second);
  auto next = Clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    Send(senders[i], to, ttl);
    next += interval;
    std::this_thread::sleep_until(next);
    Receive(senders[i]);
  }
}

HopAnswers TryHop(std::vector<Sender>& senders, const IpAddress& to, int ttl,
                  const PathTrialOptions& options) {
  HopAnswers hop;
  const std::size_t repeated = std::min(senders.size(), static_cast<std::size_t>(options.repeated));
  for (Sender& sender : senders) {
    Receive(sender);  // what came late of the hop before
    sender.answers.clear();
    sender.answered = 0;
  }
  SendRound(senders, senders.size(), to, ttl, options.per_second);
  for (int i = 0; i < options.repeats; ++i) {
    SendRound(senders, repeated, to, ttl, options.per_second);
  }
  std::this_thread::sleep_for(kPatience);
  hop.sent = senders.size() + repeated * static_cast<std::size_t>(options.repeats);
  for (std::size_t i = 0; i < senders.size(); ++i) {
    Receive(senders[i]);
    hop.answered += senders[i].answered;
    if (!senders[i].answers.empty()) hop.by_port[senders[i].port] = senders[i].answers;
    if (i < repeated && senders[i].answered > 1) ++hop.repeated;
  }
  return hop;
}

std::set<IpAddress> AddressesOf(const HopAnswers& hop) {
  std::set<IpAddress> addresses;
  for (const auto& [port, answers] : hop.by_port) addresses.insert(answers.begin(), answers.end());
  return addresses;
}

std::size_t SprayedPorts(const HopAnswers& hop) {
  std::size_t count = 0;
  for (const auto& [port, answers] : hop.by_port) count += answers.size() > 1 ? 1 : 0;
  return count;
}

void JudgeChoice(const std::vector<HopAnswers>& hops, Findings& findings) {
  std::string counts;
  bool is_chosen = false;
  std::size_t most_ports = 0;
  for (std::size_t i = 1; i < hops.size(); ++i) {
    const std::size_t addresses = AddressesOf(hops[i]).size();
    counts += fmt::format("{}{} at hop {}", counts.empty() ? "" : ", ", addresses, i + 1);
    is_chosen = is_chosen || addresses > 1;
    most_ports = std::max(most_ports, hops[i].by_port.size());
  }
  if (hops.size() < 2) {
    return findings.Skip("", "only one switch answers on the way: it chooses nothing",
                         "name an address behind another leaf with --toward");
  }
  const std::string found =
      fmt::format("{} source ports; switch addresses: {}", most_ports, counts);
  if (is_chosen) return findings.Ok("", found);
  if (most_ports < kPortsForVerdict) {
    return findings.Skip("", found + ", too few answers for a verdict");
  }
  findings.Fail("", found + ": the source port does not change the path",
                "let switches hash the UDP source port (layer 4) for ECMP, on Linux "
                "net.ipv4.fib_multipath_hash_policy=1; or there is only one path to this host");
}

void JudgeSpraying(const std::vector<HopAnswers>& hops, Findings& findings) {
  std::size_t repeated = 0;
  for (std::size_t i = 0; i < hops.size(); ++i) {
    repeated = std::max(repeated, hops[i].repeated);
    if (SprayedPorts(hops[i]) < kSprayedPorts) continue;
    const auto before = i == 0 ? std::set<IpAddress>{} : AddressesOf(hops[i - 1]);
    return findings.Warn(
        before.size() == 1 ? before.begin()->ToString() : "",
        fmt::format("{} of {} ports that were repeated took several paths at hop {}",
                    SprayedPorts(hops[i]), hops[i].repeated, i + 1),
        "turn packet spraying or adaptive routing off at the switch before this hop for RoCE, or "
        "accept that it spreads these hosts");
  }
  if (repeated < kSprayedPorts) {
    return findings.Skip("", "too few repeated ports were answered twice");
  }
  findings.Ok("", fmt::format("each of {} repeated ports took one path", repeated));
}

}  // namespace

Result<std::vector<HopAnswers>> TryPaths(const IpAddress& to, const PathTrialOptions& options) {
  if (!to.IsV4()) {
    return Fail(ErrorCode::kUnsupported,
                "paths to IPv6 addresses are not tried (give one of IPv4)");
  }
  auto senders = OpenSenders(options.ports);
  if (!senders) return Propagate(senders);
  std::vector<HopAnswers> hops;
  for (int ttl = 1; ttl <= options.most_hops; ++ttl) {
    HopAnswers hop = TryHop(*senders, to, ttl, options);
    const bool is_silent =
        static_cast<double>(hop.by_port.size()) < kFewAnswers * static_cast<double>(options.ports);
    if (is_silent) break;
    hops.push_back(std::move(hop));
  }
  return hops;
}

void JudgePaths(const std::vector<HopAnswers>& hops, Findings& findings) {
  findings.Begin("host", "path_answers");
  std::size_t sent = 0;
  std::size_t answered = 0;
  for (const HopAnswers& hop : hops) {
    sent += hop.sent;
    answered += hop.answered;
  }
  const auto share = sent == 0 ? 0.0 : static_cast<double>(answered) / static_cast<double>(sent);
  const std::string found =
      fmt::format("{} hops answered {:.0f} % of {} packets", hops.size(), 100 * share, sent);
  if (hops.empty()) {
    findings.Fail("", "no switch answers packets whose time to live ends there",
                  "let switches send ICMP \"time exceeded\", and firewalls pass it and UDP to port "
                  "4791: without it, no port's path is known");
  } else if (share < kLeastAnswers) {
    findings.Warn("", found,
                  "switches limit ICMP errors: raise the limit to 100 a second and host, or more "
                  "(on Linux net.ipv4.icmp_ratelimit), else ports are learned slowly");
  } else {
    findings.Ok("", found);
  }
  findings.Begin("host", "path_port");
  JudgeChoice(hops, findings);
  findings.Begin("host", "path_spraying");
  JudgeSpraying(hops, findings);
}

}  // namespace espalier::doctor
