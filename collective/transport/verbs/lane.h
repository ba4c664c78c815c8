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

// What the two ends of a connection tell each other besides messages; of a fixed size.
enum class NoticeKind : std::uint32_t {
  kReleased = 1,  // so many messages have been released: their slots are free
  kRenew,         // that queue pair is closed here; this one shall take its place
  kConnected,     // the new one is connected here
  kAbort,         // over TCP only, with the reason behind it
};
struct Notice {
  NoticeKind kind = NoticeKind::kReleased;
  std::uint32_t lane = 0;
  std::uint32_t generation = 0;  // of the queue pair that is closed, or that is connected
  std::uint32_t number = 0;      // of the new queue pair
  std::uint32_t first_packet = 0;
  std::uint32_t reason_bytes = 0;
  std::uint32_t has_failed = 0;  // kRenew: its path is dead, one way or the other
  // What has arrived here: all messages below `released`, and those whose slots are set.
  std::uint64_t released = 0;
  std::uint64_t arrived = 0;
  std::uint64_t reserved[2] = {};
};
static_assert(sizeof(Notice) == 64);

// What is on its way over a lane: a message by its number, or a notice.
struct Posted {
  bool is_notice = false;
  std::uint64_t message = 0;
  Notice notice;
};

// One queue pair of a connection, and what takes its place when it is closed. Work requests
// complete in a queue that the connection's lanes share, marked with the lane's index.
class Lane {
 public:
  enum class State : std::uint8_t {
    kReady,
    kEmptying,   // takes nothing more; closes when all that is on its way has been acknowledged
    kClosing,    // being flushed
    kRenewed,    // the new one waits for its other end's number
    kConnected,  // it waits for its other end to say that it is connected
  };
  struct LaneResources {
    ibv_pd* domain = nullptr;
    ibv_cq* queue = nullptr;
    const verbs::RoceAddress* local = nullptr;
    verbs::RetryPolicy patience;
    std::uint32_t receives = 0;
    std::uint32_t sends = 0;
  };

  Lane(const LaneResources& around, std::uint32_t index) : around_(around), index_(index) {}

  // Makes a queue pair that can receive once it is connected.
  Result<void> Make();
  Result<void> Connect(const IpAddress& peer, std::uint32_t number, std::uint32_t first_packet,
                       int path_mtu_bytes);
  void Break();
  // Whether nothing of a broken queue pair is still to come.
  bool IsFlushed() const { return in_flight_.empty() && receives_ == 0; }

  bool HasRoom() const { return in_flight_.size() < around_.sends; }
  // Whether it takes a message or a notice now.
  bool CanTake() const { return state == State::kReady && HasRoom(); }
  // Whether its queue pair can receive.
  bool IsOpen() const {
    return state == State::kReady || state == State::kEmptying || state == State::kConnected;
  }
  // Both need room. False: the queue pair has failed, which its completions will tell as well.
  bool PostNotice(const Notice& notice);
  bool PostMessage(std::uint64_t message, std::span<const std::byte> bytes, std::uint32_t local_key,
                   std::uint64_t remote_address, std::uint32_t remote_key);
  // Of the oldest that is on its way.
  Posted TakePosted();
  // The buffer of a receive that has completed; to be read, then posted again.
  const Notice& ReceivedIn(std::uint32_t buffer) const { return buffers_[buffer]; }
  void PostReceive(std::uint32_t buffer);
  void DropReceive() { --receives_; }

  // The lane and the buffer (of a receive) that a completion is of.
  static std::uint32_t IndexOf(std::uint64_t id) { return static_cast<std::uint32_t>(id >> 32); }
  static std::uint32_t BufferOf(std::uint64_t id) { return static_cast<std::uint32_t>(id); }
  // Of a send; completions with an error do not say what they are of.
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
  // Messages that were on their way when it closed: nobody knows yet if they have arrived.
  std::vector<std::uint64_t> uncertain;
  bool has_renewal = false;  // the other end's kRenew has come
  Notice renewal;
  std::optional<Notice> next_renewal;  // likewise, of the next generation
  std::uint32_t connected_there = 0;   // the latest generation that the other end has connected

  // The source port that it shall have, from the next connection on or by a live change.
  std::uint16_t port = 0;  // 0: the device's own choice
  std::uint16_t port_in_use = 0;

 private:
  std::uint64_t IdOf(std::uint32_t buffer) const { return std::uint64_t{index_} << 32 | buffer; }

  const LaneResources around_;
  const std::uint32_t index_;
  std::uint32_t first_packet_ = 0;
  std::vector<Notice> buffers_;
  verbs::MemoryRegion buffer_region_;
  verbs::QueuePair pair_;
  std::uint32_t receives_ = 0;
  std::deque<Posted> in_flight_;
};

}  // namespace espalier::transport
