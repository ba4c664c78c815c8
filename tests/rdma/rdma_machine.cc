#include "tests/rdma/rdma_machine.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace espalier::rdma {
namespace {

constexpr std::uint16_t kRocePort = 4791;
constexpr int kCaptureBytes = 64 << 20;

std::uint16_t Read16(const std::uint8_t* at) {
  return static_cast<std::uint16_t>(at[0] << 8 | at[1]);
}

std::uint32_t Read24(const std::uint8_t* at) {
  return static_cast<std::uint32_t>(at[0]) << 16 | Read16(at + 1);
}

// Parses Ethernet, IPv4 or IPv6 without options, UDP and the base transport header.
std::optional<Packet> Parse(const std::uint8_t* frame, std::size_t bytes) {
  constexpr std::size_t kShortest = 14 + 20 + 8 + 12 + 4;  // with the invariant CRC
  if (bytes < kShortest) return std::nullopt;
  const std::uint8_t* const ip = frame + 14;
  const bool is_v4 = ip[0] >> 4 == 4;
  if (!is_v4 && bytes < kShortest + 20) return std::nullopt;
  if (ip[is_v4 ? 9 : 6] != 17) return std::nullopt;
  const std::uint8_t* const udp = ip + (is_v4 ? 20 : 40);
  if (Read16(udp + 2) != kRocePort) return std::nullopt;
  const auto address = [&](std::size_t v4, std::size_t v6) {
    IpAddress::Bytes raw{};
    if (is_v4) {
      raw[10] = raw[11] = 0xFF;
      std::copy_n(ip + v4, 4, raw.begin() + 12);
    } else {
      std::copy_n(ip + v6, 16, raw.begin());
    }
    return IpAddress(raw);
  };
  const std::uint8_t* const transport = udp + 8;
  return Packet{.source = address(12, 8),
                .destination = address(16, 24),
                .source_port = Read16(udp),
                .remote_number = Read24(transport + 5),
                .opcode = transport[0],
                .number = Read24(transport + 9),
                .syndrome = transport[12]};
}

// When the kernel saw the packet.
std::chrono::nanoseconds TimeOf(msghdr& message) {
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SO_TIMESTAMPNS) continue;
    timespec time = {};
    std::memcpy(&time, CMSG_DATA(at), sizeof(time));
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
  return {};
}

template <typename T>
T Need(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().message;
    std::abort();
  }
  return std::move(*result);
}

Pair::End MakeEnd(int host, bool ipv6, std::size_t bytes) {
  Pair::End end = {.address = RoceAddressOf(host, ipv6)};
  end.context = Need(verbs::OpenDevice(end.address.device));
  end.domain = Need(verbs::MakeProtectionDomain(*end.context));
  end.memory.resize(bytes);
  end.region = Need(verbs::RegisterMemory(*end.domain, end.memory.data(), bytes));
  end.queue = Need(verbs::MakeCompletionQueue(*end.context, 256, nullptr));
  end.pair = Need(verbs::MakeQueuePair(*end.domain, *end.queue, {.sends = 128, .receives = 1},
                                       end.address.port));
  return end;
}

void Connect(Pair::End& end, const Pair::End& other, std::uint32_t label) {
  const auto connected = verbs::Connect(
      *end.pair, end.address, {other.address.address, other.pair->qp_num, 0}, 0, label, 1024, {});
  ASSERT_TRUE(connected) << connected.error().message;
}

}  // namespace

TimePoint Now() { return TimePoint(std::chrono::steady_clock::now().time_since_epoch()); }

IpAddress AddressOfHost(int host, bool ipv6) {
  const int leaf = host / kHostsPerLeaf;
  const int slot = host % kHostsPerLeaf;
  return *IpAddress::Parse(ipv6 ? fmt::format("fd00:10:{}:{}::1", leaf, slot)
                                : fmt::format("10.{}.{}.1", leaf, slot));
}

verbs::RoceAddress RoceAddressOf(int host, bool ipv6) {
  return Need(verbs::FindRoceAddress(AddressOfHost(host, ipv6)));
}

std::string Shell(const std::string& words) {
  std::string text;
  std::FILE* const pipe = ::popen(words.c_str(), "re");
  std::array<char, 4096> buffer{};
  while (pipe != nullptr && std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
    text += buffer.data();
  }
  EXPECT_EQ(pipe == nullptr ? -1 : ::pclose(pipe), 0) << words;
  return text;
}

class Capture::Reader {
 public:
  explicit Reader(UniqueFd socket)
      : socket_(std::move(socket)), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  std::vector<Packet> Take() {
    const std::lock_guard lock(mutex_);
    Drain();
    tpacket_stats statistics = {};
    socklen_t length = sizeof(statistics);
    EXPECT_EQ(::getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &statistics, &length), 0);
    EXPECT_EQ(statistics.tp_drops, 0U);
    return std::exchange(packets_, {});
  }

 private:
  void Run(const std::stop_token& stop) {
    constexpr int kLookMs = 50;
    while (!stop.stop_requested()) {
      pollfd readable = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&readable, 1, kLookMs) <= 0) continue;
      const std::lock_guard lock(mutex_);
      Drain();
    }
  }
  void Drain();

  UniqueFd socket_;
  std::mutex mutex_;
  std::vector<Packet> packets_;
  std::jthread thread_;  // last: it uses the others
};

void Capture::End::operator()(Reader* reader) const { delete reader; }

Capture::Capture(const std::string& node, const std::string& interface) {
  // A socket stays in the namespace of its creation, so a separate thread enters that and creates
  // it.
  std::thread([&] {
    if (!node.empty()) {
      const UniqueFd space(::open(("/run/netns/" + node).c_str(), O_RDONLY | O_CLOEXEC));
      ASSERT_EQ(::setns(space.get(), CLONE_NEWNET), 0) << node;
    }
    UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_TRUE(socket);
    ASSERT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kCaptureBytes,
                           sizeof(kCaptureBytes)),
              0);
    const int on = 1;
    ASSERT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)), 0);
    sockaddr_ll address = {};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(::if_nametoindex(interface.c_str()));
    ASSERT_NE(address.sll_ifindex, 0) << interface;
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    reader_.reset(new Reader(std::move(socket)));
  }).join();
}

std::vector<Packet> Capture::Take() { return reader_->Take(); }

void Capture::Reader::Drain() {
  std::array<std::uint8_t, 128> frame{};
  alignas(cmsghdr) std::array<char, 64> control{};
  // The kernel notes the time of day.
  const auto difference =
      Now().time_since_epoch() - std::chrono::system_clock::now().time_since_epoch();
  while (true) {
    iovec part = {.iov_base = frame.data(), .iov_len = frame.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t bytes = ::recvmsg(socket_.get(), &message, 0);
    if (bytes < 0) break;
    auto packet = Parse(frame.data(), static_cast<std::size_t>(bytes));
    if (!packet) continue;
    packet->at = TimePoint(difference + TimeOf(message));
    packets_.push_back(*packet);
  }
}

Pair::Pair(int from, int to, bool ipv6, std::uint32_t from_label, std::uint32_t to_label,
           std::size_t bytes)
    : from_(MakeEnd(from, ipv6, bytes)), to_(MakeEnd(to, ipv6, bytes)) {
  for (std::size_t i = 0; i < bytes; ++i) from_.memory[i] = static_cast<std::byte>(i * 7 + i / 251);
  Connect(from_, to_, from_label);
  Connect(to_, from_, to_label);
}

void Pair::PostWrite(std::size_t begin, std::size_t bytes) {
  ibv_sge part = {.addr = reinterpret_cast<std::uintptr_t>(from_.memory.data() + begin),
                  .length = static_cast<std::uint32_t>(bytes),
                  .lkey = from_.region->lkey};
  ibv_send_wr request = {};
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(to_.memory.data() + begin);
  request.wr.rdma.rkey = to_.region->rkey;
  ibv_send_wr* failed = nullptr;
  ASSERT_EQ(ibv_post_send(from_.pair.get(), &request, &failed), 0);
}

void Pair::AwaitWrites(int count) {
  while (count > 0) {
    ibv_wc completion = {};
    const int found = ibv_poll_cq(from_.queue.get(), 1, &completion);
    ASSERT_GE(found, 0);
    if (found == 0) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
    --count;
  }
}

}  // namespace espalier::rdma
