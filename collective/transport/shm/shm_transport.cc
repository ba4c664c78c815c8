#include "collective/transport/shm/shm_transport.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "common/base/check.h"

namespace espalier::transport {
namespace {

constexpr int kMaxSlots = 64;
constexpr std::size_t kPage = 4096;

struct Ring {
  alignas(64) std::atomic<std::uint64_t> committed{0};
  alignas(64) std::atomic<std::uint64_t> released{0};
  struct Slot {
    std::uint64_t bytes = 0;
    MessageTag tag = {};
  };
  alignas(64) Slot slots[kMaxSlots];
};
constexpr std::size_t kRingBytes = (sizeof(Ring) + kPage - 1) / kPage * kPage;

class RingOutbox : public Outbox {
 public:
  RingOutbox(Ring& ring, std::byte* data, const ShmOptions& options, Signal& receiver)
      : ring_(ring), data_(data), options_(options), receiver_(receiver) {}

  std::byte* TryAcquire() override {
    const auto slots = static_cast<std::uint64_t>(options_.slots);
    if (next_ - ring_.released.load(std::memory_order_acquire) >= slots) return nullptr;
    return data_ + (next_ % slots) * options_.slot_bytes;
  }
  void Commit(std::size_t bytes, const MessageTag& tag) override {
    Ring::Slot& slot = ring_.slots[next_ % static_cast<std::uint64_t>(options_.slots)];
    slot.bytes = bytes;
    slot.tag = tag;
    ring_.committed.store(++next_, std::memory_order_release);
    receiver_.Add();
  }

 private:
  Ring& ring_;
  std::byte* data_;
  const ShmOptions& options_;
  Signal& receiver_;
  std::uint64_t next_ = 0;
};

class RingInbox : public Inbox {
 public:
  RingInbox(Ring& ring, const std::byte* data, const ShmOptions& options, Signal& sender)
      : ring_(ring), data_(data), options_(options), sender_(sender) {}

  const Message* TryPeek() override {
    if (ring_.committed.load(std::memory_order_acquire) == next_) return nullptr;
    const std::uint64_t index = next_ % static_cast<std::uint64_t>(options_.slots);
    const Ring::Slot& slot = ring_.slots[index];
    // A faulty peer must not make this rank read beyond the slot.
    const std::size_t bytes = std::min<std::size_t>(slot.bytes, options_.slot_bytes);
    message_ = {.bytes = {data_ + index * options_.slot_bytes, bytes}, .tag = slot.tag};
    return &message_;
  }
  void Release() override {
    ring_.released.store(++next_, std::memory_order_release);
    sender_.Add();
  }

 private:
  Ring& ring_;
  const std::byte* data_;
  const ShmOptions& options_;
  Signal& sender_;
  Message message_;
  std::uint64_t next_ = 0;
};

// The memory holds a signal for each rank, then the rings by sender, receiver and channel.
class ShmTransport : public Transport {
 public:
  // `owned`: the group if it has no other owner; `memory`: MemoryBytes of its memory.
  ShmTransport(SharedGroup& group, std::byte* memory, const ShmOptions& options,
               std::unique_ptr<SharedGroup> owned = nullptr)
      : owned_(std::move(owned)), group_(&group), memory_(memory), options_(options) {}

  static std::size_t ConnectionBytes(const ShmOptions& options) {
    return kRingBytes + static_cast<std::size_t>(options.slots) * options.slot_bytes;
  }
  static std::size_t SignalBytes(int size) {
    return (static_cast<std::size_t>(size) * sizeof(Signal) + kPage - 1) / kPage * kPage;
  }
  static std::size_t MemoryBytes(int size, const ShmOptions& options) {
    const auto ranks = static_cast<std::size_t>(size);
    return SignalBytes(size) +
           ranks * ranks * static_cast<std::size_t>(options.channels) * ConnectionBytes(options);
  }

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::size_t slot_bytes() const override { return options_.slot_bytes; }
  int slots() const override { return options_.slots; }

  Result<void> Connect(std::span<const Endpoint> endpoints, Deadline /*deadline*/) override {
    for (const Endpoint& endpoint : endpoints) {
      if (endpoint.peer < 0 || endpoint.peer >= size() || endpoint.peer == rank() ||
          endpoint.channel < 0 || endpoint.channel >= options_.channels) {
        return Fail(
            ErrorCode::kInvalidArgument,
            fmt::format("rank {} has no channel {} to rank {} (the group has {} ranks and {} "
                        "channels)",
                        rank(), endpoint.channel, endpoint.peer, size(), options_.channels));
      }
      if (connections_.contains(endpoint)) continue;
      const auto [out, out_data] = At(rank(), endpoint.peer, endpoint.channel);
      const auto [in, in_data] = At(endpoint.peer, rank(), endpoint.channel);
      connections_.emplace(
          endpoint,
          Connection{std::make_unique<RingOutbox>(*out, out_data, options_, signal(endpoint.peer)),
                     std::make_unique<RingInbox>(*in, in_data, options_, signal(endpoint.peer))});
    }
    return {};
  }

  Outbox& outbox(Endpoint endpoint) override { return *Find(endpoint).outbox; }
  Inbox& inbox(Endpoint endpoint) override { return *Find(endpoint).inbox; }

  Result<void> Wait(Deadline deadline) override {
    Result<void> changed;
    if (!group_->Spin(signal(rank()), seen_)) {
      changed = group_->Await(signal(rank()), seen_, deadline);
    }
    seen_ = signal(rank()).value.load(std::memory_order_acquire);
    return changed;
  }
  Result<bool> TryWait(std::chrono::microseconds patience) override {
    bool changed = group_->Spin(signal(rank()), seen_);
    if (!changed && patience.count() > 0) {
      changed = SleepOn(signal(rank()), seen_, std::chrono::steady_clock::now() + patience);
    }
    if (changed) seen_ = signal(rank()).value.load(std::memory_order_acquire);
    return changed;
  }
  Result<void> Check() override { return group_->CheckPeers(); }
  bool HasLost(int peer) override { return group_->HasGone(peer); }
  // Committed messages lie in memory that outlives this rank as long as a peer lives.
  Result<void> Flush(Deadline /*deadline*/) override { return {}; }
  void Abort(const Error& cause) override {
    group_->Abort(cause);
    for (int peer = 0; peer < size(); ++peer) signal(peer).Add();
  }

 private:
  struct Connection {
    std::unique_ptr<RingOutbox> outbox;
    std::unique_ptr<RingInbox> inbox;
  };

  Signal& signal(int rank) { return reinterpret_cast<Signal*>(memory_)[rank]; }
  std::pair<Ring*, std::byte*> At(int sender, int receiver, int channel) {
    const int index = (sender * size() + receiver) * options_.channels + channel;
    std::byte* begin =
        memory_ + SignalBytes(size()) + static_cast<std::size_t>(index) * ConnectionBytes(options_);
    return {reinterpret_cast<Ring*>(begin), begin + kRingBytes};
  }
  Connection& Find(Endpoint endpoint) {
    const auto found = connections_.find(endpoint);
    ESPALIER_CHECK(found != connections_.end(), "peer={} channel={}", endpoint.peer,
                   endpoint.channel);
    return found->second;
  }

  std::unique_ptr<SharedGroup> owned_;
  SharedGroup* group_;
  std::byte* memory_;
  ShmOptions options_;
  std::map<Endpoint, Connection> connections_;
  std::uint32_t seen_ = 0;
};

}  // namespace

Result<std::unique_ptr<Transport>> JoinShm(RendezvousStore& store, const std::string& name,
                                           int rank, int size, const ShmOptions& options,
                                           Deadline deadline) {
  if (options.channels < 1 || options.slots < 1 || options.slots > kMaxSlots ||
      options.slot_bytes == 0 || options.slot_bytes % kPage != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} channels of {} slots of {} bytes: use at least 1 channel, 1 to {} "
                            "slots, and a multiple of {} bytes",
                            options.channels, options.slots, options.slot_bytes, kMaxSlots, kPage));
  }
  auto group = SharedGroup::Join(store, name, rank, size, ShmTransport::MemoryBytes(size, options),
                                 deadline, options.names);
  if (!group) return Propagate(group);
  SharedGroup& joined = **group;
  return std::make_unique<ShmTransport>(joined, joined.memory(), options, std::move(*group));
}

std::size_t ShmMemoryOf(int size, const ShmOptions& options) {
  return ShmTransport::MemoryBytes(size, options);
}

std::unique_ptr<Transport> MakeShm(SharedGroup& group, std::byte* memory,
                                   const ShmOptions& options) {
  return std::make_unique<ShmTransport>(group, memory, options);
}

}  // namespace espalier::transport
