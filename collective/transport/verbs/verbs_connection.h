#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "collective/transport/base/transport.h"
#include "collective/transport/verbs/lane_pool.h"
#include "collective/transport/verbs/notice_reader.h"
#include "collective/transport/verbs/receive_window.h"
#include "collective/transport/verbs/send_window.h"
#include "collective/transport/verbs/verbs_transport.h"
#include "common/base/unique_fd.h"
#include "common/verbs/verbs.h"

namespace espalier::transport {

inline constexpr int kMaxLanes = 16;

// What one end of a connection tells the other over TCP before there is any queue pair.
struct ConnectionSetup {
  std::array<std::uint8_t, 16> address{};
  std::uint64_t memory = 0;  // of the slots that messages are written to
  std::uint32_t key = 0;
  std::uint32_t path_mtu_bytes = 0;
  struct Pair {
    std::uint32_t number = 0;
    std::uint32_t first_packet = 0;
  };
  std::array<Pair, kMaxLanes> pairs{};
};

// The device that all connections of a rank use.
struct VerbsDevice {
  verbs::RoceAddress address;
  verbs::Context context;
  verbs::ProtectionDomain domain;
  verbs::CompletionChannel channel;
};

// One connection of a VerbsTransport: slots of both directions, a pool of lanes, and the TCP
// connection over which it was made, by which the end of either rank is seen.
//
// Invariants. A slot is written again only after its message is known to have arrived and to have
// been released, and no lane that has carried it is still in doubt: so nothing that a network has
// delayed can ever arrive in a later message's place. A message that was on a lane that closed is
// sent again only where the other end, after closing its own end of the lane, says that it has not
// arrived.
class VerbsConnection : public Outbox, public Inbox {
 public:
  // `ports`: of the lanes that carry messages.
  static Result<std::unique_ptr<VerbsConnection>> Make(VerbsDevice& device,
                                                       const VerbsOptions& options, int peer,
                                                       std::span<const std::uint16_t> ports);
  VerbsConnection(VerbsDevice& device, const VerbsOptions& options, int peer);

  ConnectionSetup Setup() const;
  Result<void> Start(UniqueFd socket, const ConnectionSetup& remote);

  std::byte* TryAcquire() override;
  void Commit(std::size_t bytes, const MessageTag& tag) override;
  const Message* TryPeek() override;
  void Release() override;

  int socket() const { return socket_.get(); }
  bool HasEnded() const { return has_ended_; }
  // Handles whatever has happened, over TCP only if it `looks_at_socket`; whether anything had.
  bool Move(bool looks_at_socket);
  // An event comes over the device's channel for what happens from now on.
  void Arm();
  bool IsFlushed() const { return out_.IsFlushed(); }
  // Why this connection is of no more use: the peer's reason for giving up at once; its end only
  // where something is asked of it in vain.
  std::optional<std::string> Failure() const;
  void SendAbort(const std::string& reason);
  Result<void> SetSourcePorts(std::span<const std::uint16_t> ports);

 private:
  struct Header {
    std::uint64_t bytes = 0;
    MessageTag tag = {};
    std::uint64_t reserved[3] = {};
  };
  static_assert(sizeof(Header) == 64);
  struct FreeMemory {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  Result<void> MakeAll(std::span<const std::uint16_t> ports);
  std::byte* OutSlot(std::uint64_t message) const;
  std::byte* InSlot(std::uint64_t message) const;

  bool PollQueue();
  void Handle(const ibv_wc& completion);
  void HandleSent(Lane& lane, bool succeeded);
  void HandleMessage(std::uint32_t low_bits);
  void HandleNotice(const Notice& notice);
  bool ReceiveNotices();
  void Post();
  void PostNotices();
  void PostMessages();

  void Close(Lane& lane);
  void StepRenewal(Lane& lane);
  void FinishRenewal(Lane& lane);
  void SendOverSocket(const Notice& notice, const std::string& reason);
  void End(std::string why);

  VerbsDevice& device_;
  const VerbsOptions& options_;
  const int peer_;
  const std::size_t stride_;
  verbs::CompletionQueue queue_;
  std::unique_ptr<std::byte[], FreeMemory> memory_;  // slots to send from, then slots to receive in
  verbs::MemoryRegion region_;
  std::optional<LanePool> lanes_;  // once made
  UniqueFd socket_;
  ConnectionSetup remote_;
  int path_mtu_bytes_ = 0;
  SendWindow out_;
  ReceiveWindow in_;
  Message message_;

  std::deque<Notice> notices_;  // to be sent
  NoticeReader reader_;         // of those that come over TCP
  bool has_ended_ = false;
  std::string why_ended_;
  std::optional<std::string> abort_;
};

}  // namespace espalier::transport
