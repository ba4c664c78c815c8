#pragma once

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace espalier::attack {

// A hostile program that announces flows to the agent of its host. It has its own description of
// the local API, with offsets and numbers written by hand, and uses no code of the library.
class FlowProgram {
 public:
  static constexpr std::size_t kSlots = 1'024;
  enum Flag : std::uint8_t { kPathFixed = 2, kAlone = 8 };

  struct Flow {
    std::string job = "attack";
    std::uint32_t source = 0x0a000002;  // 10.0.0.2
    std::uint32_t destination = 0x0a000001;
    std::uint16_t source_port = 50'000;
    std::uint16_t destination_port = 4'791;
    std::uint8_t flags = kPathFixed;
    std::uint64_t remaining_bytes = 1 << 30;
    std::uint64_t outstanding_bytes = 0;
  };

  // Connects and says hello as that user, which needs root unless it is the caller's own.
  explicit FlowProgram(const std::string& path, uid_t user = ::geteuid()) {
    const uid_t own = ::geteuid();
    if (user != own && ::seteuid(user) != 0) return;
    socket_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un to = {};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, path.data(), path.size());
    const bool connected = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
    if (user != own && ::seteuid(own) != 0) return;
    const std::uint32_t version = 1;
    if (!connected || ::send(socket_, &version, sizeof(version), MSG_NOSIGNAL) != sizeof(version)) {
      return;
    }
    ReceiveWelcome();
  }
  FlowProgram(const FlowProgram&) = delete;
  FlowProgram& operator=(const FlowProgram&) = delete;
  ~FlowProgram() {
    ::close(socket_);
    if (memory_ != nullptr) ::munmap(memory_, kBytes);
  }

  // The agent's word: 0, or an errno value; -1 if it has hung up without one.
  int status() const { return status_; }
  bool is_welcome() const { return memory_ != nullptr; }
  bool IsHungUp() const {
    char bytes[16];
    ssize_t size = 0;
    while ((size = ::recv(socket_, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
    }
    return size == 0;
  }

  // Writes a flow into the next slot; the agent sees it after Wake.
  void Open(const Flow& flow) {
    std::byte* const slot = At(kHeaderBytes + used_ * kSlotBytes);
    std::memset(slot + kFlowAt, 0, kFlowBytes);
    std::memcpy(slot + kFlowAt, flow.job.data(), flow.job.size());
    PutAddress(slot + kFlowAt + 64, flow.source);
    PutAddress(slot + kFlowAt + 80, flow.destination);
    Put<std::uint8_t>(slot + kFlowAt + 96, 17);
    Put<std::uint8_t>(slot + kFlowAt + 97, 1);
    Put<std::uint8_t>(slot + kFlowAt + 98, 1);
    Put<std::uint8_t>(slot + kFlowAt + 99, flow.flags);
    Put<std::uint16_t>(slot + kFlowAt + 100, flow.destination_port);
    Put<std::uint16_t>(slot + kFlowAt + 102, flow.source_port);
    Put<std::uint32_t>(slot + 4, flow.source_port);
    Put<std::uint64_t>(slot + 8, flow.remaining_bytes);
    Put<std::uint64_t>(slot + 16, flow.outstanding_bytes);
    Put<std::uint32_t>(slot, static_cast<std::uint32_t>(++used_));  // its owner
    Put<std::uint32_t>(At(4), static_cast<std::uint32_t>(used_));
  }
  void Open(const Flow& flow, std::size_t count) {
    for (; count > 0 && used_ < kSlots; --count) Open(flow);
    Wake();
  }
  void Wake() const {
    const std::uint32_t wake = 0x454b4157;
    static_cast<void>(::send(socket_, &wake, sizeof(wake), MSG_NOSIGNAL));
  }

 private:
  static constexpr std::size_t kHeaderBytes = 64;
  static constexpr std::size_t kSlotBytes = 320;
  static constexpr std::size_t kFlowAt = 64;
  static constexpr std::size_t kFlowBytes = 120;
  static constexpr std::size_t kBytes = kHeaderBytes + kSlots * kSlotBytes;

  template <typename Number>
  static void Put(std::byte* at, Number number) {
    std::memcpy(at, &number, sizeof(number));
  }
  // An IPv4 address, mapped to IPv6.
  static void PutAddress(std::byte* at, std::uint32_t address) {
    Put<std::uint16_t>(at + 10, 0xffff);
    for (int i = 0; i < 4; ++i) {
      Put<std::uint8_t>(at + 12 + i, static_cast<std::uint8_t>(address >> (24 - 8 * i)));
    }
  }
  std::byte* At(std::size_t offset) const { return static_cast<std::byte*>(memory_) + offset; }

  void ReceiveWelcome() {
    std::uint32_t welcome[4] = {};
    iovec part = {welcome, sizeof(welcome)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (::recvmsg(socket_, &message, MSG_CMSG_CLOEXEC) != sizeof(welcome)) return;
    status_ = static_cast<int>(welcome[1]);
    const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS) return;
    int file = -1;
    std::memcpy(&file, CMSG_DATA(rights), sizeof(file));
    void* const mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (mapped != MAP_FAILED) memory_ = mapped;
  }

  int socket_ = -1;
  int status_ = -1;
  void* memory_ = nullptr;
  std::size_t used_ = 0;
};

}  // namespace espalier::attack
