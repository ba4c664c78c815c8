#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace espalier::attack {

// A hostile program that talks to the offload service of a host. It has its own description of the
// protocol, with offsets and numbers written by hand, and uses no code of the real client, so that
// it can send what the client never would.
class EngineProgram {
 public:
  static constexpr std::uint32_t kMagic = 0x454f4631;
  static constexpr std::uint32_t kVersion = 4;
  enum Kind : std::uint32_t { kJoin = 1, kRegister = 2, kRelease = 3, kUse = 4, kJoinJob = 5 };
  enum Medium : std::uint32_t { kSharedMemory = 0, kTcp = 1, kVerbs = 2 };

  struct Request {
    std::uint32_t magic = kMagic;
    std::uint32_t version = kVersion;
    std::uint32_t kind = kJoin;
    std::uint32_t reserved = 0;
    std::uint64_t value = 0;
    char store[256] = {};
    char name[128] = {};
    char address[64] = {};
    std::int32_t rank = 0;
    std::int32_t size = 1;
    std::uint32_t medium = kTcp;
    std::uint32_t timeout_ms = 10'000;
    std::uint32_t connections = 1;
    std::uint32_t plan_port = 0;
    std::uint8_t key[32] = {};
    std::uint32_t has_key = 0;
    std::uint32_t trusts_network = 0;
    char job[256] = {};
    std::int32_t job_rank = 0;
    std::uint32_t job_number = 0;
    std::uint32_t job_timeout_ms = 10'000;
    std::uint32_t job_reserved = 0;
  };
  struct Reply {
    std::uint32_t magic = 0;
    std::int32_t code = -1;  // -1: the service has hung up
    std::uint64_t value = 0;
    char words[480] = {};
  };
  struct Call {
    std::uint32_t collective = 0;
    std::uint32_t type = 0;
    std::uint32_t op = 0;
    std::int32_t root = -1;
    std::uint64_t count = 0;
    std::uint64_t input_buffer = 0;
    std::uint64_t input_offset = 0;
    std::uint64_t output_buffer = 0;
    std::uint64_t output_offset = 0;
    std::uint64_t counts_buffer = 0;
    std::uint64_t counts_offset = 0;
  };

  // Connects without sending anything.
  explicit EngineProgram(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un to = {};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, path.data(), path.size());
    is_connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  }
  EngineProgram(const EngineProgram&) = delete;
  EngineProgram& operator=(const EngineProgram&) = delete;
  ~EngineProgram() {
    ::close(socket_);
    if (ring_ != nullptr) ::munmap(ring_, kRingBytes);
  }

  bool is_connected() const { return is_connected_; }
  // True if the service has hung up.
  bool IsHungUp() const {
    char byte = 0;
    return ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }

  // Makes a memory file; touches its pages only if `populate` is set.
  static int MakeFile(std::size_t bytes, int seals = F_SEAL_SHRINK | F_SEAL_GROW,
                      bool populate = true) {
    const int file = ::memfd_create("attack", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) return -1;
    for (std::size_t at = 0; populate && at < bytes; at += 4096) {
      if (::pwrite(file, "", 1, static_cast<off_t>(at)) != 1) return -1;
    }
    ::fcntl(file, F_ADD_SEALS, seals);
    return file;
  }

  // Sends a request with a file (-1: none) and waits for the reply.
  Reply Ask(const Request& request, int file = -1) {
    Send(&request, sizeof(request), file);
    Ring();
    Reply reply;
    if (::recv(socket_, &reply, sizeof(reply), 0) != sizeof(reply)) reply.code = -1;
    return reply;
  }
  void Send(const void* bytes, std::size_t count, int file = -1) {
    iovec part = {const_cast<void*>(bytes), count};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (file >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* const rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(rights), &file, sizeof(file));
    }
    static_cast<void>(::sendmsg(socket_, &message, MSG_NOSIGNAL));
  }
  // Joins a group with a valid ring.
  Reply Join(const Request& request) {
    const int file = MakeFile(kRingBytes);
    ring_ = ::mmap(nullptr, kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const Reply reply = Ask(request, file);
    ::close(file);
    return reply;
  }
  static Request GroupOfOne(const std::string& store, Medium medium = kTcp) {
    Request request;
    std::memcpy(request.store, store.data(), store.size());
    std::memcpy(request.name, "attack", 6);
    std::memcpy(request.address, "127.0.0.1", 9);
    request.medium = medium;
    return request;
  }
  // Posts a call and waits for its result: 0, or 1 + the number of the error; -1 if the service is
  // gone.
  int Do(const Call& call) {
    std::memcpy(At(kCallsAt + (posted_ % kRingCalls) * sizeof(Call)), &call, sizeof(call));
    ++posted_;
    __atomic_store_n(Word(kPostedAt), posted_, __ATOMIC_RELEASE);
    Ring();
    while (__atomic_load_n(Word(kDoneAt), __ATOMIC_ACQUIRE) != posted_) {
      char byte = 0;
      if (::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) return -1;
      const timespec nap = {0, 1'000'000};
      ::nanosleep(&nap, nullptr);
    }
    std::int32_t code = 0;
    std::memcpy(&code, At(kResultsAt + ((posted_ - 1) % kRingCalls) * kResultBytes), sizeof(code));
    return code;
  }

  static constexpr std::size_t kRingCalls = 16;
  static constexpr std::size_t kResultBytes = 484;
  // The signals bell, posted and done have a line of 64 bytes each.
  static constexpr std::size_t kPostedAt = 64;
  static constexpr std::size_t kDoneAt = 128;
  static constexpr std::size_t kCallsAt = 192;
  static constexpr std::size_t kResultsAt = kCallsAt + kRingCalls * sizeof(Call);
  static constexpr std::size_t kRingBytes = (kResultsAt + kRingCalls * kResultBytes + 63) / 64 * 64;

 private:
  std::byte* At(std::size_t offset) const { return static_cast<std::byte*>(ring_) + offset; }
  std::uint32_t* Word(std::size_t offset) const {
    return reinterpret_cast<std::uint32_t*>(At(offset));
  }
  void Ring() {
    if (ring_ == nullptr) return;
    __atomic_fetch_add(Word(0), 1, __ATOMIC_ACQ_REL);
    ::syscall(SYS_futex, Word(0), FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
  }

  int socket_;
  bool is_connected_ = false;
  void* ring_ = nullptr;
  std::uint32_t posted_ = 0;
};

}  // namespace espalier::attack
