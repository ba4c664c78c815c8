#include "agent/sim/sim_trains.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::sim {

void SimTrains::Carry(const agent::TrainPacket& packet, Duration sender_clock) {
  // Like a real network, it drops what is addressed to nobody.
  if (!sockets_.contains(packet.destination)) return;
  const Transit transit = fabric_({.source = packet.source,
                                   .destination = packet.destination,
                                   .protocol = packet.protocol,
                                   .source_port = packet.source_port,
                                   .destination_port = packet.destination_port},
                                  static_cast<std::uint8_t>(packet.traffic_class >> 2));
  if (!transit.arrives) return;
  const TimePoint now = loop_.Now();
  const bool can_be_marked = (packet.traffic_class & agent::kEcnMask) != 0;
  agent::TrainArrival arrival{
      .payload = {.number = packet.number,
                  .index = packet.index,
                  .sent_ns = (now.time_since_epoch() + sender_clock).count(),
                  .token = packet.token},
      .arrived_ns = (now + transit.delay).time_since_epoch().count(),
      .is_marked = can_be_marked && transit.is_marked,
      .source = packet.source,
      .destination = packet.destination,
      .source_port = packet.source_port,
      .protocol = packet.protocol};
  in_flight_.emplace(now + transit.delay, InFlight{arrival, packet.destination_port});
  timer_ = loop_.After(in_flight_.begin()->first - now, [this] { Deliver(); });
}

void SimTrains::Deliver() {
  timer_.reset();
  while (!in_flight_.empty() && in_flight_.begin()->first <= loop_.Now()) {
    InFlight due = in_flight_.extract(in_flight_.begin()).mapped();
    const auto found = sockets_.find(due.arrival.destination);
    if (found == sockets_.end() || found->second->port_ != due.port) continue;
    due.arrival.arrived_ns += found->second->clock_.count();
    if (found->second->on_arrival_) found->second->on_arrival_(due.arrival);
  }
  if (in_flight_.empty()) return;
  timer_ = loop_.After(std::max(Duration::zero(), in_flight_.begin()->first - loop_.Now()),
                       [this] { Deliver(); });
}

SimTrainSocket::SimTrainSocket(SimTrains& trains, const IpAddress& address)
    : trains_(trains), address_(address) {
  trains_.sockets_[address_] = this;
}

SimTrainSocket::~SimTrainSocket() { trains_.sockets_.erase(address_); }

Result<void> SimTrainSocket::Send(const agent::TrainPacket& packet) {
  if (packet.source != address_) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not an address of this host", packet.source.ToString()));
  }
  trains_.Carry(packet, clock_);
  return {};
}

Result<void> SimTrainSocket::Listen(std::uint16_t port) {
  port_ = port;
  return {};
}

}  // namespace espalier::sim
