#include "agent/probe/train_receiver.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace espalier::agent {
namespace {

// Any two times are safe: a hostile packet may carry any.
std::int64_t DelayUs(const TrainArrival& arrival) {
  const auto delay_ns = static_cast<std::uint64_t>(arrival.arrived_ns) -
                        static_cast<std::uint64_t>(arrival.payload.sent_ns);
  return static_cast<std::int64_t>(delay_ns) / 1'000;
}

}  // namespace

TrainReceiver::TrainReceiver(const TrainReceiverOptions& options, EventLoop& loop,
                             TrainSocket& socket, Metrics& metrics, OnReceived on_received)
    : options_(options),
      loop_(loop),
      socket_(socket),
      on_received_(std::move(on_received)),
      arrived_(metrics.MakeCounter("espalier_agent_train_packets_arrived_total",
                                   "Packets of expected probe trains that arrived")),
      unexpected_(
          metrics.MakeCounter("espalier_agent_train_packets_unexpected_total",
                              "Packets of probe trains that arrived late, repeatedly, from "
                              "another port than ordered, or for no train that is expected")) {
  socket_.OnArrival([this](const TrainArrival& arrival) { HandleArrival(arrival); });
}

TrainReceiver::~TrainReceiver() {
  socket_.OnArrival({});
  (void)socket_.Listen(0);
}

bool TrainReceiver::Listen(std::uint16_t port) {
  if (port < options_.min_port) return false;
  const Result<void> listening = socket_.Listen(port);
  if (!listening && can_listen_) {
    Log(LogLevel::kWarning, "event=no_train_port port={} cause=\"{}\"", port,
        listening.error().message);
  }
  can_listen_ = listening.has_value();
  return can_listen_;
}

void TrainReceiver::Expect(const wire::TrainOrder& order) {
  if (order.expected.empty()) return;
  const bool is_listening = Listen(order.destination_port);
  const std::uint64_t dropped = socket_.Dropped();
  const TimePoint now = loop_.Now();
  const auto max_us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(options_.max_wait).count());
  for (const wire::ExpectedTrain& expected : order.expected) {
    if (trains_.contains(expected.number)) continue;
    if (!is_listening || trains_.size() >= options_.max_trains) {
      on_received_({.number = expected.number, .overflowed = true}, order.urgent);
      continue;
    }
    const TimePoint until = now + std::chrono::microseconds(std::min(expected.until_us, max_us));
    Waiting waiting{.packets = order.packets,
                    .urgent = order.urgent,
                    .source_port = expected.source_port,
                    .protocol = expected.protocol,
                    .dropped_before = dropped,
                    .train = {.number = expected.number},
                    .deadline = deadlines_.emplace(until, expected.number)};
    if (waiting.source_port != 0) waiting.source = order.addresses[expected.source];
    trains_.emplace(expected.number, std::move(waiting));
  }
  Arm();
}

void TrainReceiver::Forget() {
  trains_.clear();
  deadlines_.clear();
  timer_.reset();
  (void)socket_.Listen(0);
}

void TrainReceiver::HandleArrival(const TrainArrival& arrival) {
  const auto found = trains_.find(arrival.payload.number);
  const std::uint8_t index = arrival.payload.index;
  if (found == trains_.end() || index >= found->second.packets) return unexpected_.Add();
  Waiting& waiting = found->second;
  if (!waiting.MayBe(arrival)) return unexpected_.Add();
  wire::ReceivedTrain& train = waiting.train;
  const std::uint32_t bit = 1U << index;
  if ((train.arrived_mask & bit) != 0) return unexpected_.Add();
  arrived_.Add();
  train.arrived_mask = static_cast<std::uint16_t>(train.arrived_mask | bit);
  if (arrival.is_marked) train.marked_mask = static_cast<std::uint16_t>(train.marked_mask | bit);
  train.digest ^= arrival.payload.token;
  waiting.delays_us[index] = DelayUs(arrival);
  if (train.arrived_mask + 1U == 1U << waiting.packets) End(found);
}

void TrainReceiver::Arm() {
  if (deadlines_.empty()) {
    timer_ = loop_.After(options_.close_after, [this] { (void)socket_.Listen(0); });
    return;
  }
  const Duration wait = deadlines_.begin()->first - loop_.Now();
  timer_ = loop_.After(std::max(Duration::zero(), wait), [this] { EndDue(); });
}

void TrainReceiver::EndDue() {
  timer_.reset();
  // A busy host may not have read yet what has arrived in time.
  socket_.HandleReady();
  const TimePoint now = loop_.Now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    End(trains_.find(deadlines_.begin()->second));
  }
  Arm();
}

void TrainReceiver::End(Trains::iterator ended) {
  deadlines_.erase(ended->second.deadline);
  const Waiting waiting = std::move(ended->second);
  trains_.erase(ended);
  wire::ReceivedTrain train = waiting.train;
  train.overflowed = socket_.Dropped() != waiting.dropped_before;
  for (std::uint8_t i = 0; i < waiting.packets; ++i) {
    if ((train.arrived_mask >> i & 1U) != 0) train.delays_us.push_back(waiting.delays_us[i]);
  }
  on_received_(std::move(train), waiting.urgent);
}

}  // namespace espalier::agent
