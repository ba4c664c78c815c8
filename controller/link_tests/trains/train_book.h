#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/link_tests/trains/test_routes.h"
#include "controller/link_tests/trains/train_outcome.h"
#include "proto/messages.h"

namespace espalier::controller {

struct TrainBookOptions {
  std::uint8_t packets = 8;  // of a train
  // No switch drops a packet for want of room while it is queued for a shorter time than this.
  Duration short_queue = std::chrono::microseconds(100);
};

// Joins what the sender and the receiver of each train report to its outcome.
//
// A receiver proves that a packet has arrived by its token, which it cannot make itself: a report
// whose digest is not that of the packets that it claims is void, and so is a train that only one
// end reports, or whose receiver lost packets in its own socket.
//
// A packet counts if a later packet of its train proves that no queue on the path was long. A queue
// cannot drain faster than time passes, so if the next packet, sent d later, waited w, the queue
// was at most w + d before it. The clocks of hosts may differ: w is at most the packet's delay plus
// the least delay of the last minute in the opposite direction, in whose sum the clocks cancel.
// Without one, or if the next packet is marked for congestion, nothing counts.
//
// Memory: O(trains under way + pairs of hosts). Thread safety: none.
class TrainBook {
 public:
  static constexpr Duration kDelayMemory = std::chrono::seconds(30);  // one to two of these
  static constexpr Duration kPatience = std::chrono::seconds(4);      // for reports after the train

  TrainBook(const TestRoutes& routes, TrainBookOptions options)
      : routes_(routes), options_(options) {}

  struct Planned {
    std::uint32_t route = 0;
    std::uint8_t protocol = 0;
    std::uint16_t port = 0;
    AgentId sender;
    AgentId receiver;
    std::string key;  // of its sender
    TimePoint at{};
  };
  void Expect(std::uint64_t number, Planned train);
  // None: the other end has not reported yet, or the train is void.
  std::optional<TrainOutcome> HandleSent(AgentId agent, const wire::SentTrain& sent);
  std::optional<TrainOutcome> HandleReceived(AgentId agent, const wire::ReceivedTrain& received);
  // Forgets the trains whose reports are overdue.
  void Expire(TimePoint now);

  std::size_t under_way() const { return trains_.size(); }
  std::uint64_t forged() const { return forged_; }  // digests that were wrong
  std::uint64_t lost_reports() const { return lost_reports_; }

 private:
  struct Train : Planned {
    std::optional<wire::SentTrain> sent;
    std::optional<wire::ReceivedTrain> received;
  };
  // Least delays from one NIC to another, in the present and the last period.
  struct Delays {
    TimePoint period{};
    std::int64_t present = 0;
    std::optional<std::int64_t> last;
  };

  std::optional<TrainOutcome> Finish(std::uint64_t number, Train& train);
  void NoteDelays(const Train& train);
  std::optional<std::int64_t> LeastBack(const Train& train) const;
  void CountPackets(const Train& train, TrainOutcome& outcome) const;

  const TestRoutes& routes_;
  const TrainBookOptions options_;
  std::unordered_map<std::uint64_t, Train> trains_;
  std::map<std::pair<TimePoint, std::uint64_t>, std::uint64_t> by_time_;
  std::map<std::pair<fabric::NodeId, fabric::NodeId>, Delays> delays_;
  std::uint64_t forged_ = 0;
  std::uint64_t lost_reports_ = 0;
};

}  // namespace espalier::controller
