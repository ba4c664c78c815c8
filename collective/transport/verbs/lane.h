#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/verbs/verbs.h"

namespace espalier::transport {

// Control messages of fixed size that the two ends of a connection exchange.
enum class NoticeKind : std::uint32_t {
  kReleased = 1,  // `released` messages have been released; their slots are free
  kRenew,         // this end has closed a queue pair; the new one in the notice replaces it
  kConnected,     // this end has connected the new queue pair
  kAbort,         // over TCP only, followed by the reason
};
struct Notice {
  NoticeKind kind = NoticeKind::kReleased;
  std::uint32_t lane = 0;
  std::uint32_t generation = 0;  // of the queue pair that was closed or connected
  std::uint32_t number = 0;      // of the new queue pair
  std::uint32_t first_packet = 0;
  std::uint32_t reason_bytes = 0;
  std::uint32_t has_failed = 0;  // kRenew: 1 if the path is dead in one of its directions
  // The messages that have arrived at the sender of the notice: all below `released`, and those
  // whose slot's bit is set.
  std::uint64_t released = 0;
  std::uint64_t arrived = 0;
  std::uint64_t reserved[2] = {};
};
static_assert(sizeof(Notice) == 64);

// A message, by its number, or a notice that has been posted on a lane and has not completed.
struct Posted {
  bool is_notice = false;
  std::uint64_t message = 0;
  Notice notice;
};

// A lane of a connection: one queue pair at a time, which is replaced when it closes. Work requests
// complete in a queue that the connection's lanes share, and carry the lane's index.
class Lane {
 public:
  enum class State : std::uint8_t {
    kReady,
    kEmptying,   // takes nothing more; closes when everything in flight is acknowledged
    kClosing,    // the closed queue pair is being flushed
    kRenewed,    // the new queue pair waits for the number of its other end
    kConnected,  // the new queue pair is connected here and waits until the other end is, too
  };
  struct LaneResources {
    ibv_pd* domain = nullptr;
    ibv_cq* queue = nullptr;
    const verbs::RoceAddress* local = nullptr;
    verbs::RetryPolicy patience;
    std::uint32_t receives = 0;
    std::uint32_t sends = 0;
  };

  Lane(const LaneResources& resources, std::uint32_t index)
      : resources_(resources), index_(index) {}

  // Creates a queue pair with posted receives, ready to be connected.
  Result<void> Make();
  Result<void> Connect(const IpAddress& peer, std::uint32_t number, std::uint32_t first_packet,
                       int path_mtu_bytes);
  void Break();
  // Whether all completions of a broken queue pair have come.
  bool IsFlushed() const { return in_flight_.empty() && receives_ == 0; }

  bool HasRoom() const { return in_flight_.size() < resources_.sends; }
  // Whether a message or a notice can be posted now.
  bool CanTake() const { return state == State::kReady && HasRoom(); }
  // Whether its queue pair can receive.
  bool IsOpen() const {
    return state == State::kReady || state == State::kEmptying || state == State::kConnected;
  }
  // Post a notice or a message; call them only if HasRoom. False: the queue pair has failed, which
  // its completions will report, too.
  bool PostNotice(const Notice& notice);
  bool PostMessage(std::uint64_t message, std::span<const std::byte> bytes, std::uint32_t local_key,
                   std::uint64_t remote_address, std::uint32_t remote_key);
  // Removes and returns the oldest posted item, which has completed.
  Posted TakePosted();
  // The buffer of a completed receive; read it, then post it again.
  const Notice& ReceivedIn(std::uint32_t buffer) const { return buffers_[buffer]; }
  void PostReceive(std::uint32_t buffer);
  void DropReceive() { --receives_; }

  // The lane and the receive buffer of a completion, from its request id.
  static std::uint32_t IndexOf(std::uint64_t id) { return static_cast<std::uint32_t>(id >> 32); }
  static std::uint32_t BufferOf(std::uint64_t id) { return static_cast<std::uint32_t>(id); }
  // In place of a buffer: a send. (Failed completions have no valid opcode.)
  static constexpr std::uint32_t kNoBuffer = UINT32_MAX;

  std::uint32_t index() const { return index_; }
  std::uint32_t number() const { return pair_->qp_num; }
  std::uint32_t first_packet() const { return first_packet_; }
  ibv_qp& pair() { return *pair_; }
  std::size_t in_flight() const { return in_flight_.size(); }

  State state = State::kReady;
  std::uint32_t generation = 0;
  int failures = 0;
  bool is_spare = false;
  bool has_failed = false;  // since it was last connected
  // Messages in flight when the queue pair closed; it is unknown whether they have arrived.
  std::vector<std::uint64_t> uncertain;
  bool has_renewal = false;  // the other end's kRenew has come
  Notice renewal;
  std::optional<Notice> next_renewal;  // kRenew of the next generation
  std::uint32_t connected_there = 0;   // the latest generation that the other end has connected

  // The wanted source port, set by a live change or by the next connection.
  std::uint16_t port = 0;  // 0: the device chooses
  std::uint16_t port_in_use = 0;

 private:
  std::uint64_t IdOf(std::uint32_t buffer) const { return std::uint64_t{index_} << 32 | buffer; }

  const LaneResources resources_;
  const std::uint32_t index_;
  std::uint32_t first_packet_ = 0;
  std::vector<Notice> buffers_;
  verbs::MemoryRegion buffer_region_;
  verbs::QueuePair pair_;
  std::uint32_t receives_ = 0;
  std::deque<Posted> in_flight_;
};

}  // namespace espalier::transport
