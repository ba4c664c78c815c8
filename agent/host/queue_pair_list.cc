#include "agent/host/queue_pair_list.h"

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "common/base/unique_fd.h"
#include "common/os/netlink.h"

namespace espalier::agent {
namespace {

using netlink::Bytes;
using netlink::ForEachAttribute;
using netlink::NumberIn;
using netlink::TextIn;

constexpr std::size_t kAnswerBytes = 64 << 10;
// The kernel builds the answer while it is read, so it answers immediately. The agent's loop is
// blocked until then.
constexpr timeval kPatience = {.tv_sec = 0, .tv_usec = 20'000};

bool IsConnection(std::uint32_t type) {
  return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_XRC_SEND;
}

std::optional<KernelQueuePair> ReadEntry(Bytes entry) {
  KernelQueuePair pair;
  std::uint32_t type = 0;
  std::uint32_t state = IBV_QPS_RESET;
  ForEachAttribute(entry, [&](int kind, Bytes value) {
    if (kind == RDMA_NLDEV_ATTR_RES_LQPN) pair.number = NumberIn(value);
    if (kind == RDMA_NLDEV_ATTR_RES_RQPN) pair.remote_number = NumberIn(value);
    if (kind == RDMA_NLDEV_ATTR_RES_SQ_PSN) pair.next_packet = NumberIn(value);
    if (kind == RDMA_NLDEV_ATTR_RES_TYPE) type = NumberIn(value);
    if (kind == RDMA_NLDEV_ATTR_RES_STATE) state = NumberIn(value);
    if (kind == RDMA_NLDEV_ATTR_RES_PID) pair.process = NumberIn(value);
    if (kind == RDMA_NLDEV_ATTR_RES_KERN_NAME) pair.owner = TextIn(value);
  });
  const bool can_send = state == IBV_QPS_RTS || state == IBV_QPS_SQD;
  if (!IsConnection(type) || !can_send) return std::nullopt;
  return pair;
}

Error Failed(const char* what) {
  return {ErrorCode::kInternal, fmt::format("{}: {}", what, std::strerror(errno))};
}

// A conversation with the kernel's RDMA subsystem.
class Netlink {
 public:
  static Result<Netlink> Open() {
    UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA));
    if (!socket) return Fail(ErrorCode::kUnsupported, "the kernel has no RDMA");
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
    return Netlink(std::move(socket));
  }

  // Requests all objects of a kind (of a device); `use` gets each answer without its header.
  Result<void> Dump(int command, std::optional<std::uint32_t> device,
                    const std::function<void(Bytes)>& use) {
    nlmsghdr* const request = mnl_nlmsg_put_header(buffer_.data());
    request->nlmsg_type = static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
    request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request->nlmsg_seq = ++sequence_;
    if (device) mnl_attr_put_u32(request, RDMA_NLDEV_ATTR_DEV_INDEX, *device);
    if (::send(socket_.get(), request, request->nlmsg_len, 0) < 0) {
      return tl::unexpected(Failed("asking the kernel for RDMA objects"));
    }
    while (true) {
      const ssize_t bytes = ::recv(socket_.get(), buffer_.data(), buffer_.size(), 0);
      if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return Fail(ErrorCode::kUnavailable, "the kernel does not list its RDMA objects in time");
      }
      if (bytes < 0) return tl::unexpected(Failed("reading the kernel's RDMA objects"));
      auto done = Read({buffer_.data(), static_cast<std::size_t>(bytes)}, use);
      if (!done) return Propagate(done);
      if (*done) return {};
    }
  }

 private:
  explicit Netlink(UniqueFd socket) : socket_(std::move(socket)), buffer_(kAnswerBytes) {}

  // Returns true after the last answer.
  Result<bool> Read(Bytes bytes, const std::function<void(Bytes)>& use) const {
    Result<bool> done = false;
    netlink::ForEachMessage(bytes, [&](const nlmsghdr& header, Bytes payload) {
      if (!done || *done || header.nlmsg_seq != sequence_) return;
      if (header.nlmsg_type == NLMSG_DONE) {
        done = true;
      } else if (header.nlmsg_type == NLMSG_ERROR) {
        errno = -static_cast<int>(NumberIn(payload));
        done = errno == 0 ? Result<bool>(true)
                          : tl::unexpected(Failed("listing the kernel's RDMA objects"));
      } else {
        use(payload);
      }
    });
    return done;
  }

  UniqueFd socket_;
  std::vector<std::byte> buffer_;
  std::uint32_t sequence_ = 0;
};

}  // namespace

void ReadQueuePairs(Bytes answer, std::vector<KernelQueuePair>& pairs) {
  std::string device;
  ForEachAttribute(answer, [&](int kind, Bytes value) {
    if (kind == RDMA_NLDEV_ATTR_DEV_NAME) device = TextIn(value);
    if (kind != RDMA_NLDEV_ATTR_RES_QP) return;
    ForEachAttribute(value, [&](int inner, Bytes entry) {
      if (inner != RDMA_NLDEV_ATTR_RES_QP_ENTRY) return;
      auto pair = ReadEntry(entry);
      if (!pair) return;
      pair->device = device;
      pairs.push_back(std::move(*pair));
    });
  });
}

Result<std::vector<KernelQueuePair>> ListQueuePairs() {
  auto netlink = Netlink::Open();
  if (!netlink) return Propagate(netlink);
  std::vector<std::uint32_t> devices;
  const auto listed = netlink->Dump(RDMA_NLDEV_CMD_GET, std::nullopt, [&](Bytes answer) {
    ForEachAttribute(answer, [&](int kind, Bytes value) {
      if (kind == RDMA_NLDEV_ATTR_DEV_INDEX) devices.push_back(NumberIn(value));
    });
  });
  if (!listed) return tl::unexpected(listed.error());
  std::vector<KernelQueuePair> pairs;
  for (const std::uint32_t device : devices) {
    const auto dumped = netlink->Dump(RDMA_NLDEV_CMD_RES_QP_GET, device,
                                      [&](Bytes answer) { ReadQueuePairs(answer, pairs); });
    // A device that has disappeared has no queue pairs. A kernel that is silent stays silent.
    if (!dumped && dumped.error().code == ErrorCode::kUnavailable) {
      return tl::unexpected(dumped.error());
    }
  }
  return pairs;
}

}  // namespace espalier::agent
