#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/probe/train_socket.h"
#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "common/base/time/token_bucket.h"
#include "proto/messages.h"

namespace espalier::agent {

// Limits of the controller's orders, so that an attacker in control of it cannot use hosts against
// others.
struct TrainSenderOptions {
  double packets_per_second = 2'000;  // of all trains together
  double burst = 512;
  std::size_t max_trains = 1'024;  // that wait or are being sent
  std::uint8_t ttl = 16;
  std::uint16_t min_destination_port = 1'024;
  Duration max_start = std::chrono::seconds(10);  // after the order arrives
  Duration max_span = std::chrono::seconds(10);   // from the first to the last packet
  // The shortest gap that is kept by a timer. Packets that should follow sooner are sent together.
  Duration min_gap = std::chrono::microseconds(300);
};

// Sends probe trains at the times that their order gives. Two packets of a train are never closer
// together than its gap; on a busy host they are further apart. A train that exceeds the limits or
// for which the budget has no room is not sent at all, and reported with the mask 0. A packet that
// the socket refuses is absent from the mask.
// Thread safety: the agent's loop thread. Complexity: O(log trains) for each packet.
class TrainSender {
 public:
  // Returns whether an address is one of the agent's own NICs; only from those it sends.
  using IsOwnAddress = std::function<bool(const IpAddress&)>;
  using OnSent = std::function<void(const wire::SentTrain&, bool urgent)>;

  TrainSender(const TrainSenderOptions& options, EventLoop& loop, TrainSocket& socket,
              Metrics& metrics, IsOwnAddress is_own, OnSent on_sent);

  // Sends the order's trains; on_sent reports each one once, perhaps inside this call.
  void Start(const wire::TrainOrder& order);
  // Drops all trains without reports.
  void Forget();

 private:
  struct Terms {  // what all trains of an order share
    std::string key;
    std::uint16_t destination_port = 0;
    std::uint8_t packets = 0;
    Duration gap{};
    bool urgent = false;
  };
  struct OpenTrain {
    std::shared_ptr<const Terms> terms;
    wire::Train train;
    IpAddress source;
    IpAddress destination;
    std::uint8_t next = 0;  // index of the next packet
    TimePoint first;        // of the packets that were sent
    TimePoint last;
    std::uint16_t sent_mask = 0;
  };

  bool IsAllowed(const Terms& terms, const OpenTrain& train) const;
  void SendDue();
  // Returns whether the train has further packets to send.
  bool SendSome(OpenTrain& train);
  void SendNext(OpenTrain& train);
  void Report(const OpenTrain& train);

  const TrainSenderOptions options_;
  EventLoop& loop_;
  TrainSocket& socket_;
  const IsOwnAddress is_own_;
  const OnSent on_sent_;
  Counter& sent_;
  TokenBucket budget_;
  std::multimap<TimePoint, OpenTrain> due_;  // by the time of the next packet
  TimerPtr timer_;
};

}  // namespace espalier::agent
