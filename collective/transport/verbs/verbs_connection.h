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

// What one end of a connection tells the other over TCP to connect the queue pairs.
struct ConnectionSetup {
  std::array<std::uint8_t, 16> address{};
  std::uint64_t memory = 0;  // address of the slots to which messages are written
  std::uint32_t key = 0;
  std::uint32_t path_mtu_bytes = 0;
  struct Pair {
    std::uint32_t number = 0;
    std::uint32_t first_packet = 0;
  };
  std::array<Pair, kMaxLanes> pairs{};
};

// A device and its objects that all connections of a rank over it use.
struct VerbsDevice {
  verbs::RoceAddress address;
  verbs::Context context;
  verbs::ProtectionDomain domain;
  verbs::CompletionChannel channel;
};

// One connection of a VerbsTransport: slots for both directions, a pool of lanes, and the TCP
// connection over which it was set up and by which each end notices the death of the other.
//
// Problem: a queue pair dies with its path, and what it had in flight may or may not have arrived.
// Idea: both ends close their queue pair, and each tells the other in a kRenew notice what has
// arrived and the number of a new queue pair with another source port. The missing messages go over
// other lanes meanwhile; the new queue pair is used when both ends are connected (StepRenewal).
// Invariants: a slot is written again only after its message is known to have arrived and been
// released, and after every lane that has carried it is settled, so a delayed packet cannot
// overwrite a later message. A message of a closed lane is sent again only if the other end, after
// closing its own end, has told that it has not arrived.
// Cost: two notices in each direction for each failure; nothing otherwise.
class VerbsConnection : public Outbox, public Inbox {
 public:
  // `ports`: source ports of the lanes that carry messages.
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
  // Handles completions, and notices over TCP if `checks_socket`; returns whether there were any.
  bool Move(bool checks_socket);
  // Requests an event on the device's completion channel for the next completion.
  void Arm();
  bool IsFlushed() const { return out_.IsFlushed(); }
  // The failure of this connection: the cause of a peer's abort at once, but the connection's end
  // only if a message, a slot or a flush is still needed.
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
  std::optional<LanePool> lanes_;  // set by MakeAll
  UniqueFd socket_;
  ConnectionSetup remote_;
  int path_mtu_bytes_ = 0;
  SendWindow out_;
  ReceiveWindow in_;
  Message message_;

  std::deque<Notice> notices_;  // to be sent
  NoticeReader reader_;         // reads notices that come over TCP
  bool has_ended_ = false;
  std::string why_ended_;
  std::optional<std::string> abort_;
};

}  // namespace espalier::transport
