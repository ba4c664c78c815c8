#include "deploy/lab/traffic/phase_barrier.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/log.h"
#include "common/os/os_error.h"

namespace espalier::traffic {
namespace {

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the path of the barrier's socket is longer than {} characters "
                            "(use a lab with a shorter name)",
                            path, sizeof address.sun_path - 1));
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

}  // namespace

PhaseBarrier::PhaseBarrier(io::AsioEventLoop& loop, std::string prefix, std::string host,
                           OnReleased on_released)
    : loop_(loop),
      prefix_(std::move(prefix)),
      host_(std::move(host)),
      on_released_(std::move(on_released)) {}

PhaseBarrier::~PhaseBarrier() {
  watch_.reset();
  if (socket_) ::unlink(PathOf(host_).c_str());
}

Result<std::unique_ptr<PhaseBarrier>> PhaseBarrier::Open(io::AsioEventLoop& loop,
                                                         const std::string& prefix,
                                                         const std::string& host,
                                                         OnReleased on_released) {
  std::unique_ptr<PhaseBarrier> barrier(
      new PhaseBarrier(loop, prefix, host, std::move(on_released)));
  if (Result<void> bound = barrier->Bind(); !bound) return Propagate(bound);
  return barrier;
}

Result<void> PhaseBarrier::Bind() {
  const Result<sockaddr_un> address = AddressOf(PathOf(host_));
  if (!address) return tl::unexpected(address.error());
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // A send waits for the receiver if its queue, of some ten messages, is full.
  const timeval limit{1, 0};
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return FailErrno("barrier " + PathOf(host_), errno);
  }
  socket_ = std::move(socket);
  watch_ = loop_.WatchReadable(socket_.get(), [this] { Receive(); });
  return {};
}

void PhaseBarrier::Arrive(int job, int step) {
  const Message arrival{.job = job, .step = step};
  const std::string& first = jobs_.at(job).hosts.front();
  if (first != host_) return Send(first, arrival);
  loop_.Post([this, arrival] { HandleArrival(arrival); });
}

void PhaseBarrier::Send(const std::string& host, const Message& message) {
  const Result<sockaddr_un> address = AddressOf(PathOf(host));
  if (address && ::sendto(socket_.get(), &message, sizeof message, 0,
                          reinterpret_cast<const sockaddr*>(&*address),
                          sizeof *address) == ssize_t{sizeof message}) {
    return;
  }
  Log(LogLevel::kError, "event=barrier_message_lost to={} errno={}", host, errno);
}

void PhaseBarrier::Receive() {
  Message message;
  while (::recv(socket_.get(), &message, sizeof message, MSG_DONTWAIT) == ssize_t{sizeof message}) {
    if (!jobs_.contains(message.job)) continue;
    if (message.is_release != 0) {
      on_released_(message.job, message.step);
    } else {
      HandleArrival(message);
    }
  }
}

void PhaseBarrier::HandleArrival(const Message& message) {
  Job& job = jobs_.at(message.job);
  if (++job.arrived < job.hosts.size()) return;
  job.arrived = 0;
  for (const std::string& host : job.hosts) {
    if (host != host_) Send(host, {.is_release = 1, .job = message.job, .step = message.step});
  }
  on_released_(message.job, message.step);
}

}  // namespace espalier::traffic
