#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>

#include "agent/probe/train_socket.h"
#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

struct TrainReceiverOptions {
  std::size_t max_trains = 4'096;                   // expected at the same time
  std::uint16_t min_port = 1'024;                   // to receive at
  Duration max_wait = std::chrono::minutes(1);      // for a train; a longer one counts as this
  Duration close_after = std::chrono::seconds(10);  // without an expected train
};

// Counts the packets of expected probe trains. The numbers of trains are random, so packets of
// strangers match none, and only count as unexpected. So do packets from another address or port,
// or of another protocol, than the order says: they would show that another path works. Each packet
// counts once. A train is reported
// when all its packets have arrived or its time is over, also if nothing came. It is reported as
// overflowed, so that its losses mean nothing, if the socket dropped packets meanwhile, if nothing
// can be received at its port, or if too many trains are expected already.
//
// The socket listens while trains are expected, and closes some time after the last one.
// Thread safety: the agent's loop thread. Complexity: O(1) for each packet, O(log trains) for each
// train.
class TrainReceiver {
 public:
  using OnReceived = std::function<void(wire::ReceivedTrain, bool urgent)>;

  TrainReceiver(const TrainReceiverOptions& options, EventLoop& loop, TrainSocket& socket,
                Metrics& metrics, OnReceived on_received);
  ~TrainReceiver();
  TrainReceiver(const TrainReceiver&) = delete;
  TrainReceiver& operator=(const TrainReceiver&) = delete;

  // Expects the order's trains; on_received reports each one once, perhaps inside this call. The
  // number of a train that is expected already is ignored.
  void Expect(const wire::TrainOrder& order);
  // Drops all trains without reports, and closes the socket.
  void Forget();

 private:
  using Deadlines = std::multimap<TimePoint, std::uint64_t>;
  struct Waiting {
    std::uint8_t packets = 0;
    bool urgent = false;
    IpAddress source;
    std::uint16_t source_port = 0;  // 0: what its packets come from is not known
    std::uint8_t protocol = 0;
    std::uint64_t dropped_before = 0;

    bool MayBe(const TrainArrival& arrival) const {
      return source_port == 0 || (arrival.source == source && arrival.source_port == source_port &&
                                  arrival.protocol == protocol);
    }
    wire::ReceivedTrain train;
    std::array<std::int64_t, wire::kMaxTrainPackets> delays_us{};  // by index
    Deadlines::iterator deadline;
  };
  using Trains = std::unordered_map<std::uint64_t, Waiting>;

  bool Listen(std::uint16_t port);
  void HandleArrival(const TrainArrival& arrival);
  void Arm();
  void EndDue();
  void End(Trains::iterator train);

  const TrainReceiverOptions options_;
  EventLoop& loop_;
  TrainSocket& socket_;
  const OnReceived on_received_;
  Counter& arrived_;
  Counter& unexpected_;
  bool can_listen_ = true;  // false: the last attempt failed, which has been logged
  Trains trains_;
  Deadlines deadlines_;
  TimerPtr timer_;
};

}  // namespace espalier::agent
